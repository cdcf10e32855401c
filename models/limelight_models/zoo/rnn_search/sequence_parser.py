"""Grammar as a foreign language, P14 (Vinyals, Kaiser, Koo, Petrov, Sutskever & Hinton 2015): a tree is a translation.

Fig. 2 of the paper: stacked LSTMs read the words from the last to the first, others write the tree bracket by bracket,
and attention (§2.1) finds for each symbol the words that it is about.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.score import Additive, Score
from limelight_models.attention.score.prepared import PreparedKeys
from limelight_models.blocks.fixed import FirstState
from limelight_models.cards.language import Attends, carried_states, maps_of
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import Seq2SeqConfig, parsing
from limelight_models.zoo.rnn_search.stacked import StackedDecoder, StackedEncoder

States = Sequence[tuple[Tensor, Tensor]]


class SequenceParserConfig(Seq2SeqConfig):
    """Sizes. The paper has d 256 and 3 layers."""

    d: int = 64
    layers: int = 1
    dropout: float = 0.1


class SequenceParser(GeneratingNetwork):
    """Text -> the brackets of its tree, with the weights of each over the words.

    d_t = LSTMs([E y_{t-1}; d'_{t-1}], d_{t-1});  u_i^t = vᵀ tanh(W'_1 h_i + W'_2 d_t);  a^t = softmax(u^t)
    d'_t = Σ_i a_i^t h_i;  p(y_t) = softmax(W [d_t; d'_t])

    An encoder that exports gives states but not what its cells hold at each sequence's own end, so the decoder's cells
    begin with a linear map of the states. score: in the place of that of attention.

    Shapes: source_ids int64 [batch, source], source_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], map `decoder.cross` [batch, head = 1, output, source].
    """

    def __init__(self, config: SequenceParserConfig, *, score: Score | None = None) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.source_embedding = nn.Embedding(config.source_vocabulary, d, padding_idx=0)
        self.target_embedding = nn.Embedding(config.target_vocabulary, d, padding_idx=0)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=0.5)  # torch's 1.0 makes loud noise of every rare token
        self.encoder = StackedEncoder(d, config.layers, config.dropout)
        self.cells = nn.ModuleList(nn.Linear(d, d) for _ in range(config.layers))
        self.decoder = StackedDecoder(d, config.layers, config.dropout, d_in=2 * d)
        self.attention = Attention(score=PreparedKeys(score or Additive(d_q=d, d_k=d, d_w=d, bias=False)))
        self.scores = nn.Linear(2 * d, config.target_vocabulary)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Shapes: memory h and keys W'_1 h [batch, source, d]; initial_hidden, initial_cell of each layer and
        initial_found, zeros [batch, d].
        """
        memory, last = self.encoder(self.source_embedding(tensors["source_ids"]), tensors["source_mask"])
        found = {"memory": memory, "keys": self.attention.score.prepare(memory.unsqueeze(1)).squeeze(1)}
        for number, (state, to_cell) in enumerate(zip(last, self.cells, strict=True)):
            found |= {f"initial_hidden.{number}": state, f"initial_cell.{number}": to_cell(state)}
        return {**found, "initial_found": torch.zeros_like(last[0])}

    def states(self, tensors: Mapping[str, Tensor], prefix: str = "") -> States:
        """The decoder's states among the tensors of a step, or with `initial_` of those that it begins with."""
        layers = range(self.config.layers)
        return [(tensors[f"{prefix}hidden.{each}"], tensors[f"{prefix}cell.{each}"]) for each in layers]

    def look(
        self, embedded: Tensor, found: Tensor, states: States, tensors: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor, States]:
        """One step: d'_t [batch, d], weights [batch, head, 1, source], the states after it, d_t the last."""
        after = self.decoder(torch.cat([embedded, found], -1), states)
        context, weights = self.attention(
            after[-1][0][:, None, None],
            tensors["keys"].unsqueeze(1),
            tensors["memory"].unsqueeze(1),
            tensors["source_mask"][:, None, None],
        )
        return context[:, 0, 0], weights, after

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """Shapes: token [batch], what `encode` gave, source_mask, hidden and cell of each layer and found d' [batch, d]
        -> scores [batch, token], the states after it, map [batch, head, source].
        """
        embedded = self.target_embedding(token)
        found, weights, after = self.look(embedded, tensors["found"], self.states(tensors), tensors)
        following = {"next_found": found}
        for number, (hidden, cell) in enumerate(after):
            following |= {f"next_hidden.{number}": hidden, f"next_cell.{number}": cell}
        scores = self.scores(torch.cat([after[-1][0], found], -1))
        return StepAnswer(scores, following, {"decoder.cross": weights[:, :, 0]})

    def forward(self, **tensors: Tensor) -> Answer:
        known = {**tensors, **self.encode(**tensors)}
        target = tensors["target_ids"]
        begin = torch.full_like(target[:, :1], self.config.begin)
        states, found = self.states(known, "initial_"), known["initial_found"]
        vectors, rows = [], []
        for embedded in self.target_embedding(torch.cat([begin, target[:, :-1]], 1)).unbind(1):
            found, weights, states = self.look(embedded, found, states, known)
            vectors.append(torch.cat([states[-1][0], found], -1))
            rows.append(weights)
        return Answer({"scores": self.scores(torch.stack(vectors, 1))}, {"decoder.cross": torch.cat(rows, 2)})


def card(network: SequenceParser, blueprint: Blueprint[SequenceParserConfig]) -> Card:
    """Describe the model."""
    config = network.config
    text, target = config.source(blueprint.files), config.target(blueprint.files)
    kept = [f"{kind}.{number}" for number in range(config.layers) for kind in ("hidden", "cell")]
    written = config.written(blueprint.files, states=carried_states(*kept, "found"))
    about = "Which words the decoder looked at for each bracket, and each XX, which stands for a word."
    cross = Attends(written.steps, text.tokens("source"), about, features=config.d)
    return blueprint.card(
        network,
        title="Grammar as a foreign language",
        summary="Writes the tree of a sentence bracket by bracket, looking at its words for each one.",
        inputs=[text, target],
        results=[written],
        maps=maps_of(network.attention, {"decoder.cross": cross}),
        taxonomy="additive",
        citation="Vinyals, Kaiser, Koo, Petrov, Sutskever, Hinton (2015): Grammar as a Foreign Language. NeurIPS",
    )


PRESETS = {
    "tiny": tiny(vocabulary=50, d=8, layers=2),
    "demo": preset(6, 32, 4e-3, vocabulary=200),
    "full": preset(12, 32, 2e-3, patience=3, vocabulary=10_000, d=128, layers=2, max_new_tokens=200),
    # §3, with pieces in the place of words, and Adam in that of plain descent.
    "paper": preset(12, 128, 1e-3, vocabulary=90_000, d=256, layers=3, max_new_tokens=400),
}

SEQUENCE_PARSER = parsing(SequenceParserConfig, SequenceParser, card, PRESETS)
# Without attention: at each step the state that has read all.
SEQUENCE_PARSER_LAST = SEQUENCE_PARSER.with_parts(score=FirstState())
