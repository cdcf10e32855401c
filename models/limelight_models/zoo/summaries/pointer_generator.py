"""Pointer-generator network with coverage, R6 (See, Liu & Manning 2017).

Fig. 3 of the paper: a decoder looks at the source, and a gate divides each word's probability between writing a word
of the vocabulary and copying one of the source, whose probabilities are the weights. Coverage (§2.3) tells attention
where it has been, and the loss has it not go there again.

Source and target have one vocabulary of pieces, which write every word: nothing has to be added to it from the source.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, Context
from limelight_models.attention.score import Additive, CoverageAware
from limelight_models.attention.score.prepared import PreparedKeys
from limelight_models.blocks.recurrent import BiLstm, first
from limelight_models.cards.language import Attends, LabelSet, carried_states, map_of, maps_of
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import Seq2SeqConfig, sharing
from limelight_models.weights import Weights

_LEAST = 1e-30  # is added to a probability: less than it float32 has with few digits


class PointerGeneratorConfig(Seq2SeqConfig):
    """Sizes. The paper has d_embedding 128, d_encoder and d_decoder 256.

    copies: whether words may be copied. coverage: λ of its loss; of 0, attention is not told where it has been.
    """

    d_embedding: int = 48
    d_encoder: int = 48
    d_decoder: int = 64
    copies: bool = True
    coverage: float = 1.0


class Gate(nn.Module):
    """p_gen = σ(w_h*ᵀ h*_t + w_sᵀ s_t + w_xᵀ x_t + b_ptr) (eq. 8): weights of writing and of copying.

    Shapes: context, state and input [..., d] of their sizes -> [..., 2], which sum to 1.
    """

    makes = (Weights(),)

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        self.writing = nn.Linear(2 * config.d_encoder + config.d_decoder + config.d_embedding, 1)

    def forward(self, context: Tensor, state: Tensor, embedded: Tensor) -> Tensor:
        scores = self.writing(torch.cat([context, state, embedded], -1))
        # σ, in a form that is as exact for small weights, whose logarithm is put out.
        return torch.cat([scores, torch.zeros_like(scores)], -1).softmax(-1)


class PointerGenerator(GeneratingNetwork):
    """Text -> text, each token written or copied.

    s_t = LSTM(x_t, s_{t-1});  e_i^t = vᵀ tanh(W_h h_i + W_s s_t + w_c c_i^t + b) (eq. 1, 11);  a^t = softmax(e^t)
    h*_t = Σ_i a_i^t h_i (eq. 3);  P_vocab = softmax(V' (V [s_t; h*_t] + b) + b') (eq. 4)
    P(w) = p_gen P_vocab(w) + (1 - p_gen) Σ_{i: w_i = w} a_i^t (eq. 9);  c^t = Σ_{t' < t} a^{t'} (eq. 10)
    loss_t = -log P(w_t) + λ Σ_i min(a_i^t, c_i^t) (eq. 12, 13)

    Shapes: source_ids int64 [batch, source], source_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores log P [batch, output, token], maps `decoder.cross` [batch, 1, output, source] and,
        where it copies, `decoder.gate` [batch, 1, output, 2]; in training target_mask of the target as well, and the
        signal `again` [batch], Σ_t Σ_i min(a_i^t, c_i^t).
    """

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        self.config = config
        d_memory, d_state = 2 * config.d_encoder, config.d_decoder
        self.embedding = nn.Embedding(config.source_vocabulary, config.d_embedding, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)  # torch's 1.0 makes loud noise of every rare token
        self.encoder = BiLstm(d_in=config.d_embedding, d_hidden=config.d_encoder)
        self.initial = nn.Linear(d_memory, 2 * d_state)
        score = CoverageAware if config.coverage else Additive
        self.attention = Attention(score=PreparedKeys(score(d_q=d_state, d_k=d_memory, d_w=d_memory)))
        self.decoder = nn.LSTMCell(config.d_embedding, d_state)
        self.readout = nn.Linear(d_state + d_memory, d_state)
        self.vocabulary = nn.Linear(d_state, config.target_vocabulary)
        self.gate = Gate(config) if config.copies else None

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Shapes: memory and keys [batch, source, 2 d_encoder], initial_hidden and initial_cell [batch, d_decoder],
        initial_coverage [batch, source], zeros.
        """
        memory = self.encoder(self.embedding(tensors["source_ids"]), tensors["source_mask"])
        keys = self.attention.score.prepare(memory.unsqueeze(1)).squeeze(1)
        # Of the reverse LSTM's end and the onward one's first step: an exported LSTM does not give cells, nor its end.
        hidden, cell = self.initial(first(memory)).relu().chunk(2, -1)
        begin = {"initial_hidden": hidden, "initial_cell": cell, "initial_coverage": memory.new_zeros(memory.shape[:2])}
        return {"memory": memory, "keys": keys, **begin}

    def look(self, embedded: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Mapping[str, Tensor]]:
        """One step: h*_t [batch, 2 d_encoder], a^t [batch, source], and the states after it."""
        hidden, cell = self.decoder(embedded, (tensors["hidden"], tensors["cell"]))
        coverage = tensors["coverage"]
        context, weights = self.attention(
            hidden[:, None, None],
            tensors["keys"].unsqueeze(1),
            tensors["memory"].unsqueeze(1),
            tensors["source_mask"][:, None, None],
            Context(coverage=coverage[:, None, None]),
        )
        row = weights[:, 0, 0]
        return context[:, 0, 0], row, {"hidden": hidden, "cell": cell, "coverage": coverage + row}

    def mixture(
        self, embedded: Tensor, hidden: Tensor, context: Tensor, weights: Tensor, source_ids: Tensor
    ) -> tuple[Tensor, Mapping[str, Tensor]]:
        """log P [batch, step, token], and the gate's map. Shapes: all [batch, step, …], source_ids [batch, source]."""
        written = self.vocabulary(self.readout(torch.cat([hidden, context], -1))).log_softmax(-1)
        if self.gate is None:
            return written, {}
        gate = self.gate(context, hidden, embedded)
        copied = torch.zeros_like(written).scatter_add(2, source_ids.unsqueeze(1).expand_as(weights), weights)
        mixed = gate[..., :1] * written.exp() + gate[..., 1:] * copied
        return (mixed + _LEAST).log(), {"decoder.gate": gate.unsqueeze(1)}

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """Shapes: token [batch], what `encode` gave, source_ids, source_mask, hidden and cell [batch, d_decoder],
        coverage [batch, source] -> scores [batch, token], the states after it, maps without their query axis.
        """
        embedded = self.embedding(token)
        context, weights, states = self.look(embedded, tensors)
        vectors = embedded[:, None], states["hidden"][:, None], context[:, None], weights[:, None]
        scores, gates = self.mixture(*vectors, tensors["source_ids"])
        maps = {"decoder.cross": weights.unsqueeze(1), **{name: gate[:, :, 0] for name, gate in gates.items()}}
        return StepAnswer(scores[:, 0], {f"next_{name}": state for name, state in states.items()}, maps)

    def forward(self, **tensors: Tensor) -> Answer:
        known = {**tensors, **self.encode(**tensors)}
        target = tensors["target_ids"]
        begin = torch.full_like(target[:, :1], self.config.begin)
        embedded = self.embedding(torch.cat([begin, target[:, :-1]], 1))
        states: Mapping[str, Tensor] = {name: known[f"initial_{name}"] for name in ("hidden", "cell", "coverage")}
        steps, again = [], []
        for each in embedded.unbind(1):
            context, weights, after = self.look(each, {**known, **states})
            again.append(torch.minimum(weights, states["coverage"]).sum(-1))
            states = after
            steps.append((states["hidden"], context, weights))
        # The last layers wait until they can take all steps at once.
        hidden, contexts, rows = (torch.stack(each, 1) for each in zip(*steps, strict=True))
        scores, gates = self.mixture(embedded, hidden, contexts, rows, tensors["source_ids"])
        signals = {}
        if self.training:
            signals["again"] = (torch.stack(again, 1) * tensors["target_mask"]).sum(1)
        return Answer({"scores": scores}, {"decoder.cross": rows.unsqueeze(1), **gates}, signals)

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """Losses of the tokens, and λ times the weight that went where weight had been."""
        if not answer.signals:
            return losses.sum()
        return losses.sum() + self.config.coverage * answer.signals["again"].sum()


def card(network: PointerGenerator, blueprint: Blueprint[PointerGeneratorConfig]) -> Card:
    """Describe the model."""
    config = network.config
    text, target = config.source(blueprint.files), config.target(blueprint.files)
    written = config.written(blueprint.files, states=carried_states("hidden", "cell", "coverage"))
    about = "Where the decoder looked in the source before it put out each token; what it copies is copied from there."
    cross = Attends(written.steps, text.tokens("source"), about, features=2 * config.d_encoder)
    maps = maps_of(network.attention, {"decoder.cross": cross})
    if network.gate is not None:
        ways = LabelSet(name="ways", kind="representations", names=("written", "copied"))
        share = "How much of each token's probability comes from the vocabulary, and how much from copying."
        maps["decoder.gate"] = map_of(network.gate, "pool", queries=written.steps, keys=ways, summary=share)
    return blueprint.card(
        network,
        title="Pointer-generator network",
        summary="Writes what a text says in brief, token by token: each of the vocabulary, or copied from the text.",
        inputs=[text, target],
        results=[written],
        maps=maps,
        taxonomy="additive",
        citation="See, Liu, Manning (2017): Get To The Point: Summarization with Pointer-Generator Networks. ACL",
    )


PRESETS = {
    "tiny": tiny(d_embedding=8, d_encoder=8, d_decoder=12),
    "demo": preset(8, 32, 4e-3, vocabulary=400),
    "full": preset(12, 32, 2e-3, patience=3, vocabulary=4000, d_embedding=96, d_encoder=96, d_decoder=128),
    # §5, with pieces in the place of 50,000 words, Adam in that of Adagrad, and coverage from the first step.
    "paper": preset(
        12, 16, 1e-3, clip=2.0, vocabulary=50_000, d_embedding=128, d_encoder=256, d_decoder=256, max_source=400
    ),
}

POINTER_GENERATOR = sharing(PointerGeneratorConfig, PointerGenerator, card, PRESETS)
POINTER_GENERATOR_WRITING = POINTER_GENERATOR.changed(copies=False)
POINTER_GENERATOR_UNCOVERED = POINTER_GENERATOR.changed(coverage=0.0)
