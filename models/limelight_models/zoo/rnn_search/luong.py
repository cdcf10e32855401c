"""Global and local attention for translation, J2 (Luong, Pham & Manning 2015).

Figures 2, 3 and 4 of the paper: stacked LSTMs read the source and put out the target; the decoder's top state asks for
all of the source (§3.1) or for a window of it (§3.2), and what it becomes goes in with the next token (§3.3).
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention, Context
from limelight_models.attention.align import Align, LocalMonotonic, LocalPredictive, Softmax
from limelight_models.attention.score import Concat, Dot, General, LocationBased, Score
from limelight_models.attention.score.prepared import PreparedKeys
from limelight_models.cards.language import Attends, carried_states, maps_of
from limelight_models.network import Answer, GeneratingNetwork, StepAnswer
from limelight_models.recipes import Blueprint, Card, preset, tiny
from limelight_models.recipes.rewriting import Seq2SeqConfig, rewriting
from limelight_models.zoo.rnn_search.stacked import StackedDecoder, StackedEncoder

ScoreName = Literal["dot", "general", "concat", "location"]
AlignName = Literal["global", "local-m", "local-p"]
_SCORING = {"dot": "multiplicative", "general": "general", "concat": "concat", "location": "location-based"}


class LuongConfig(Seq2SeqConfig):
    """Sizes. The paper has d 1000 everywhere, 4 layers, dropout 0.2 and radius 10.

    score: of eq. 8. align: to all of the source, to a window around the place of the output, or to one around a
    predicted place. radius: D, of the windows. feeding: whether the attentional vector goes in with the next token.
    """

    score: ScoreName = "general"
    align: AlignName = "global"
    feeding: bool = True
    d: int = 96
    layers: int = 1
    radius: int = 5
    dropout: float = 0.2


class Luong(GeneratingNetwork):
    """Text -> text, with the weights of every output token over the source.

    The paper's decoder begins with all that the encoder kept. An encoder that exports gives states but not what its
    cells hold at each sequence's own end, so the decoder's cells begin with a linear map of the states.

    Shapes: source_ids int64 [batch, source], source_mask bool of the same, target_ids int64 [batch, output] ending
        with the end token -> scores [batch, output, token], map `decoder.cross` [batch, head = 1, output, source].
    """

    def __init__(self, config: LuongConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.dropout = nn.Dropout(config.dropout)
        self.source_embedding = nn.Embedding(config.source_vocabulary, d, padding_idx=0)
        self.target_embedding = nn.Embedding(config.target_vocabulary, d, padding_idx=0)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=0.5)  # torch's 1.0 makes loud noise of every rare token
        self.encoder = StackedEncoder(d, config.layers, config.dropout)
        self.cells = nn.ModuleList(nn.Linear(d, d) for _ in range(config.layers))
        self.decoder = StackedDecoder(d, config.layers, config.dropout, d_in=2 * d if config.feeding else d)
        self.attention = Attention(score=PreparedKeys(score_of(config)), align=align_of(config))
        self.combine = nn.Linear(2 * d, d, bias=False)
        self.scores = nn.Linear(d, config.target_vocabulary)
        # What it reads is a tanh: with torch's weights, a third of these, the first epochs go into making them larger.
        nn.init.normal_(self.scores.weight, std=1.7 * d**-0.5)

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """h̄_s, what the score makes of them once, and where the decoder begins; what is fed first are zeros.

        Shapes: memory [batch, source, d], keys [batch, source, d_k], initial_* [batch, d].
        """
        memory, last = self.encoder(self.source_embedding(tensors["source_ids"]), tensors["source_mask"])
        score = self.attention.score
        found = {"memory": memory, "keys": score.prepare(memory.unsqueeze(1)).squeeze(1)}
        for number, (state, to_cell) in enumerate(zip(last, self.cells, strict=True)):
            found |= {f"initial_hidden.{number}": state, f"initial_cell.{number}": to_cell(state)}
        return found | ({"initial_fed": torch.zeros_like(last[0])} if self.config.feeding else {})

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """Scores of token t from y_{t-1}, the states before it and h̃_{t-1}.

        h_t = LSTMs([E y_{t-1}; h̃_{t-1}], h_{t-1});  a_t = align(h_t, h̄);  c_t = Σ_s a_ts h̄_s
        h̃_t = tanh(W_c [c_t; h_t]) (eq. 5);  p(y_t) = softmax(W_s h̃_t) (eq. 6)

        Shapes: token [batch]; keys, memory, source_mask as from `encode`; hidden, cell and fed [batch, d]; position
            int64 [batch], where windows follow it -> scores [batch, token], map [batch, head, source].
        """
        layers = range(self.config.layers)
        before = [(tensors[f"hidden.{number}"], tensors[f"cell.{number}"]) for number in layers]
        embedded = self.target_embedding(token)
        vector, weights, after = self.advance(embedded, before, tensors.get("fed"), tensors.get("position"), tensors)
        states = {f"next_hidden.{number}": after[number][0] for number in layers}
        states |= {f"next_cell.{number}": after[number][1] for number in layers}
        if self.config.feeding:
            states["next_fed"] = vector
        return StepAnswer(self.scores(self.dropout(vector)), states, {"decoder.cross": weights[:, :, 0]})

    def advance(
        self,
        embedded: Tensor,
        states: Sequence[tuple[Tensor, Tensor]],
        fed: Tensor | None,
        position: Tensor | None,
        tensors: Mapping[str, Tensor],
    ) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
        """One step: h̃_t [batch, d], weights [batch, head, 1, source], the states after it."""
        after = self.decoder(embedded if fed is None else torch.cat([embedded, fed], -1), states)
        top = after[-1][0]
        context, weights = self.attention(
            top[:, None, None, :],  # [batch, head = 1, query = 1, d]
            tensors["keys"].unsqueeze(1),
            tensors["memory"].unsqueeze(1),
            tensors["source_mask"][:, None, None, :],
            Context(query_positions=None if position is None else position[:, None, None]),
        )
        return torch.tanh(self.combine(torch.cat([context[:, 0, 0], top], -1))), weights, after

    def forward(self, **tensors: Tensor) -> Answer:
        fixed = {**self.encode(**tensors), "source_mask": tensors["source_mask"]}
        target = tensors["target_ids"]
        begin = torch.full_like(target[:, :1], self.config.begin)
        embedded = self.target_embedding(torch.cat([begin, target[:, :-1]], 1))
        layers = range(self.config.layers)
        states = [(fixed[f"initial_hidden.{number}"], fixed[f"initial_cell.{number}"]) for number in layers]
        fed, vectors, looks = fixed.get("initial_fed"), [], []
        # The same step as above; only the large last layer waits until it can take all steps at once.
        for place, each in enumerate(embedded.unbind(1)):
            position = torch.full_like(target[:, 0], place)
            vector, row, states = self.advance(each, states, fed, position, fixed)
            fed = vector if self.config.feeding else None
            vectors.append(vector)
            looks.append(row)
        scores = self.scores(self.dropout(torch.stack(vectors, 1)))
        return Answer({"scores": scores}, {"decoder.cross": torch.cat(looks, 2)})


def score_of(config: LuongConfig) -> Score:
    """One of eq. 8, or that of §3.1 which sees the state alone."""
    d = config.d
    match config.score:
        case "dot":
            return Dot()
        case "general":
            return General(d_q=d, d_k=d)
        case "concat":
            return Concat(d_q=d, d_k=d, d_w=d, bias=False)
        case "location":
            return LocationBased(d_q=d, max_keys=config.max_source)


def align_of(config: LuongConfig) -> Align:
    """Eq. 7, or a window around t, or around p_t (eq. 9 and 10)."""
    match config.align:
        case "global":
            return Softmax()
        case "local-m":
            return LocalMonotonic(radius=config.radius)
        case "local-p":
            return LocalPredictive(d_q=config.d, d_p=config.d, radius=config.radius)


def card(network: Luong, blueprint: Blueprint[LuongConfig]) -> Card:
    """Describe the model."""
    config = network.config
    text, target = config.source(blueprint.files), config.target(blueprint.files)
    kept = [f"{kind}.{number}" for number in range(config.layers) for kind in ("hidden", "cell")]
    written = config.written(
        blueprint.files,
        position="position" if config.align == "local-m" else "",
        states=carried_states(*kept, *(["fed"] if config.feeding else [])),
    )
    about = "Where the decoder looked in the source for each token."
    cross = Attends(written.steps, text.tokens("source"), about, features=config.d)
    return blueprint.card(
        network,
        title="Local attention for translation" if config.align != "global" else "Global attention for translation",
        summary="Rewrites a text token by token, looking at the source for each one.",
        inputs=[text, target],
        results=[written],
        maps=maps_of(network.attention, {"decoder.cross": cross}),
        taxonomy=_SCORING[config.score] + ", local" * (config.align != "global"),
        citation="Luong, Pham, Manning (2015): Effective Approaches to Attention-based Neural Machine Translation. "
        "EMNLP",
    )


PRESETS = {
    "tiny": tiny(d=8, layers=2, radius=2),
    "demo": preset(8, 64, 4e-3, d=64, radius=4, dropout=0.1),
    "full": preset(8, 64, 3e-3, patience=2, vocabulary=2000, d=128, radius=4),
    # §4.1, with Adam in the place of plain gradients whose rate is halved, and pieces in that of 50,000 words.
    "paper": preset(12, 128, 5e-4, patience=12, clip=5.0, vocabulary=32_000, d=1000, layers=4, radius=10),
}

LUONG = rewriting(LuongConfig, Luong, card, PRESETS)


LUONG_DOT, LUONG_CONCAT, LUONG_LOCATION = (LUONG.changed(score=name) for name in ("dot", "concat", "location"))
LUONG_LOCAL_M, LUONG_LOCAL_P = (LUONG.changed(align=name) for name in ("local-m", "local-p"))
LUONG_UNFED = LUONG.changed(feeding=False)
