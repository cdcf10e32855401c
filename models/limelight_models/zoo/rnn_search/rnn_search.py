"""Encoder and decoder of RNNsearch (Bahdanau et al. 2015, appendix A), for models that are trained in another way.

Bidirectional encoder, additive alignment, gated decoder, maxout readout. The gated units are torch's, whose reset gate
comes behind the map of the state (r ∘ U s) where the paper's comes before it (U [r ∘ s]).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.score import Additive, Score
from limelight_models.attention.score.prepared import PreparedKeys
from limelight_models.blocks.recurrent import BiGru, first
from limelight_models.cards.language import Attends, carried_states, maps_of
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Preset, preset, tiny
from limelight_models.recipes.rewriting import Seq2SeqConfig


class RnnSearchConfig(Seq2SeqConfig):
    """Sizes. The paper has d_embedding 620, d_encoder and d_decoder 1000, d_attention 1000, d_maxout 500."""

    d_embedding: int = 64
    d_encoder: int = 64
    d_decoder: int = 96
    d_attention: int = 64
    d_maxout: int = 64
    dropout: float = 0.1


class RnnSearch(GeneratingNetwork):
    """Text -> text, with the weights of every output token over the source.

    score: that of attention, in the place of the paper's.

    Shapes: source_ids int64 [batch, source], source_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], map `decoder.cross` [batch, head = 1, output, source].
    """

    states: tuple[str, ...] = ("state",)  # what a step leaves for the next

    def __init__(self, config: RnnSearchConfig, *, score: Score | None = None) -> None:
        super().__init__()
        self.config = config
        d_memory, d_state = 2 * config.d_encoder, config.d_decoder
        self.dropout = nn.Dropout(config.dropout)
        self.source_embedding = nn.Embedding(config.source_vocabulary, config.d_embedding, padding_idx=0)
        self.encoder = BiGru(d_in=config.d_embedding, d_hidden=config.d_encoder)
        self.initial = nn.Linear(config.d_encoder, d_state)
        self.prepared = PreparedKeys(score or Additive(d_q=d_state, d_k=d_memory, d_w=config.d_attention))
        self.attention = Attention(score=self.prepared)
        self.target_embedding = nn.Embedding(config.target_vocabulary, config.d_embedding, padding_idx=0)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=0.1)  # torch's 1.0 makes loud noise of every rare token
        self.decoder = nn.GRUCell(config.d_embedding + d_memory, d_state)
        self.readout = nn.Linear(d_state + config.d_embedding + d_memory, 2 * config.d_maxout)
        self.scores = nn.Linear(config.d_maxout, config.target_vocabulary)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Annotations h_j, what the score makes of them once, and s_0 = tanh(W_s ←h_1).

        Shapes: memory [batch, source, 2 d_encoder], keys [batch, source, d_attention],
            initial_state [batch, d_decoder].
        """
        embedded = self.dropout(self.source_embedding(tensors["source_ids"]))
        memory = self.encoder(embedded, tensors["source_mask"])
        keys = self.prepared.prepare(memory.unsqueeze(1)).squeeze(1)
        backward = first(memory)[:, self.config.d_encoder :]
        return {"keys": keys, "memory": memory, "initial_state": torch.tanh(self.initial(backward))}

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """Scores of token i from y_{i-1}, s_{i-1} and c_i; then s_i.

        e_ij = vᵀ tanh(W s_{i-1} + U h_j);  a_i = softmax(e_i);  c_i = Σ_j a_ij h_j
        t_i = maxout(U_o s_{i-1} + V_o E y_{i-1} + C_o c_i);  p(y_i) = softmax(W_o t_i)
        s_i = GRU([E y_{i-1}; c_i], s_{i-1})

        Shapes: token [batch], keys, memory, source_mask as from `encode`, state [batch, d_decoder]
            -> scores [batch, token], next_state [batch, d_decoder], map [batch, head, source].
        """
        embedded = self.dropout(self.target_embedding(token))
        hidden, context, weights = self.attend(embedded, tensors)
        states = self.advance(embedded, context, weights, tensors)
        following = {f"next_{name}": state for name, state in states.items()}
        return StepAnswer(self.scores(hidden), following, {"decoder.cross": weights[:, :, 0]})

    def attend(self, embedded: Tensor, tensors: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The readout t_i [batch, d_maxout], the context c_i [batch, 2 d_encoder], weights [batch, head, 1, source]."""
        state, keys, memory = tensors["state"], tensors["keys"], tensors["memory"]
        context, weights = self.attention(
            state[:, None, None, :],  # [batch, head = 1, query = 1, d_decoder]
            keys.unsqueeze(1),
            memory.unsqueeze(1),
            tensors["source_mask"][:, None, None, :],
        )
        context = context[:, 0, 0]
        both = self.readout(torch.cat([state, embedded, context], -1)).unflatten(-1, (self.config.d_maxout, 2))
        return self.dropout(both.amax(-1)), context, weights

    def advance(
        self, embedded: Tensor, context: Tensor, weights: Tensor, tensors: Mapping[str, Tensor]
    ) -> Mapping[str, Tensor]:
        """The next step's inputs, by the names of `states`."""
        return {"state": self.decoder(torch.cat([embedded, context], -1), tensors["state"])}

    def forward(self, **tensors: Tensor) -> Answer:
        fixed = {**self.encode(**tensors), "source_mask": tensors["source_mask"]}
        target = tensors["target_ids"]
        begin = torch.full_like(target[:, :1], self.config.begin)
        embedded = self.dropout(self.target_embedding(torch.cat([begin, target[:, :-1]], 1)))
        states: Mapping[str, Tensor] = {name: fixed[f"initial_{name}"] for name in self.states}
        hidden, weights = [], []
        # The same step as above; only the large last layer waits until it can take all steps at once.
        for each in embedded.unbind(1):
            known = {**fixed, **states}
            read, context, row = self.attend(each, known)
            states = self.advance(each, context, row, known)
            hidden.append(read)
            weights.append(row)
        return Answer({"scores": self.scores(torch.stack(hidden, 1))}, {"decoder.cross": torch.cat(weights, 2)})


def parts(network: RnnSearch, blueprint: Blueprint[Any]) -> dict[str, Any]:
    """Parts of all of their cards: inputs, the result, and the map."""
    config = network.config
    text, target = config.source(blueprint.files), config.target(blueprint.files)
    written = config.written(blueprint.files, states=carried_states(*network.states))
    about = "Where the decoder looked in the source before it put out each token."
    cross = Attends(written.steps, text.tokens("source"), about, features=2 * config.d_encoder)
    return {
        "inputs": [text, target],
        "results": [written],
        "maps": maps_of(network.attention, {"decoder.cross": cross}),
    }


PRESETS: Mapping[str, Preset] = {
    "tiny": tiny(d_embedding=8, d_encoder=8, d_decoder=12, d_attention=8, d_maxout=8),
    "demo": preset(16, 64, 4e-3, d_embedding=32, d_encoder=64, d_decoder=80, d_attention=48, d_maxout=48),
    "full": preset(12, 64, 3e-3, patience=2, vocabulary=2000).sized(
        d_embedding=96, d_encoder=96, d_decoder=128, d_attention=96, d_maxout=96, dropout=0.2
    ),
    # Appendix A.2.3 and B, with pieces in the place of 30,000 words, and Adam in that of Adadelta.
    "paper": preset(10, 80, 5e-4, patience=10, vocabulary=30_000).sized(
        d_embedding=620, d_encoder=1000, d_decoder=1000, d_attention=1000, d_maxout=500, dropout=0.0
    ),
}
