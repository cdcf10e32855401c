"""Pointer network, K2 (Vinyals, Fortunato & Jaitly 2015): the weights of attention are the answer.

Figure 1b of the paper: a network reads points, and one that puts out places looks back at them; where it looks is what
it says, so that the answer has as many classes as there are points. Here points are read both ways; an order ends where
it comes back to its first point, in the place of a symbol for the end, and no point is taken twice.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from limelight_models.attention import Attention
from limelight_models.attention.flat import attend, over_keys
from limelight_models.attention.score import Additive
from limelight_models.blocks.recurrent import BiLstm, first
from limelight_models.cards.inputs import TensorInput, TensorSpec
from limelight_models.cards.language import Attends, Classes, LabelSet, maps_of
from limelight_models.data import points, rows
from limelight_models.data.dataset import DataError, Dataset
from limelight_models.in_turn import Tensors, in_turn
from limelight_models.network import Answer, Network
from limelight_models.recipes import Blueprint, Card, Preset, Recipe, Sizes, preset, tiny
from limelight_models.tasks.point import Point


class PointerConfig(Sizes):
    """Sizes. features: numbers of a point. points: whether attention is the answer; else an ordinary output layer reads
    what it found, over as many places as the longest input has.
    """

    features: int
    d: int = 64
    points: bool = True
    max_points: int = 64


class PointerNetwork(Network):
    """Points -> at each place the probability of each point.

    e_j = BiLSTM(x)_j;  d_i = LSTM(x_{C_{i-1}}, d_{i-1});  u_j^i = vᵀ tanh(W₁ e_j + W₂ d_i);
    p(C_i | C_1 … C_{i-1}) = softmax(u^i) (eq. 3);  without: p = softmax(W [d_i; Σ_j softmax(u^i)_j e_j]) (§2.2)

    Shapes: points [batch, point, feature], point_mask bool of the same, in learning order int64 [batch, place] ->
        pointers [batch, place, point], map `decoder.cross` [batch, 1, place, point]; as many places as points.
    """

    def __init__(self, config: PointerConfig) -> None:
        super().__init__()
        self.config, d = config, config.d
        self.embedding = nn.Linear(config.features, d)
        self.encoder = BiLstm(d_in=d, d_hidden=d // 2)
        self.start = nn.Linear(d, 2 * d)
        self.begin = nn.Parameter(torch.zeros(d))
        self.decoder = nn.LSTMCell(d, d)
        self.attention = Attention(score=Additive(d_q=d, d_k=d, d_w=d))
        self.put_out = None if config.points else nn.Linear(2 * d, config.max_points)

    def forward(self, **tensors: Tensor) -> Answer:
        mask, told = tensors["point_mask"].any(-1), tensors.get("order")
        read = self.embedding(tensors["points"])
        known = self.encoder(read, mask)
        state, cell = self.start(first(known)).tanh().chunk(2, -1)
        nobody, counts = read[:, :, 0] * 0, mask.sum(1, keepdim=True)
        places = read
        if told is not None:
            places = one_hot(pad(told, (0, mask.shape[1] - told.shape[1])), mask.shape[1]).to(read.dtype)

        def step(left: Tensors, now: Tensor) -> tuple[Tensors, Tensors]:
            state, cell, before, taken, closing = left
            state, cell = self.decoder(before, (state, cell))
            real = torch.arange(known.shape[1], device=known.device) < counts
            free = real & ((taken == 0) | (closing > 0))  # back to the first point is the end
            found, row = attend(self.attention, state.unsqueeze(1), known, None, over_keys(free))
            if self.put_out is None:
                likely = row[:, 0, 0]
            else:
                scores = self.put_out(torch.cat([state, found.squeeze(1)], -1))[:, : known.shape[1]]
                likely = scores.masked_fill(~free, -torch.inf).softmax(-1)
            best = now if told is not None else _only(likely.argmax(-1, keepdim=True), likely)
            closing = closing + best * (1 - closing.sum(-1, keepdim=True))
            chosen = (best.unsqueeze(1) @ read).squeeze(1)
            return (state, cell, chosen, taken + best, closing), (likely, row[:, :, 0])

        begin = self.begin.expand_as(state)
        likely, rows_ = in_turn(step, (state, cell, begin, nobody, nobody.clone()), places)
        return Answer(
            {"pointers": likely.transpose(0, 1)}, {"decoder.cross": rows_.movedim(0, 2) * mask[:, None, :, None]}
        )


def _only(chosen: Tensor, like: Tensor) -> Tensor:
    """1 at what is chosen [batch, 1], 0 elsewhere: [batch, point]. (`one_hot` would freeze their number in a graph.)"""
    return (torch.arange(like.shape[1], device=like.device) == chosen).to(like.dtype)


def card(network: PointerNetwork, blueprint: Blueprint[PointerConfig]) -> Card:
    """Describe the network."""
    config = network.config
    size = {"point": config.max_points, "feature": config.features}
    tensor = TensorSpec(name="points", dimensions=size, fixed="all but the first", mask="point_mask")
    given = TensorInput(name="points", summary="Points, one after the other.", tensor=tensor)
    entries = LabelSet(name="points", kind="nodes", input="points", tensor="points", dimension="point")
    places = replace(entries, name="order", kind="places")
    cross = Attends(places, entries, "What point each place of the answer points at.", kind="cross")
    return blueprint.card(
        network,
        title="Pointer network",
        summary="Puts points into the order it has learned; it answers by pointing at them.",
        inputs=[given],
        results=[
            Classes(name="order", scores="pointers", activation="identity", over=places, entries=entries, distinct=True)
        ],
        maps=maps_of(network.attention, {"decoder.cross": cross}),
        taxonomy="additive",
        citation="Vinyals, Fortunato, Jaitly (2015): Pointer Networks. NeurIPS",
    )


def prepare(dataset: Dataset, preset: Preset) -> Blueprint[PointerConfig]:
    """The size of a point."""
    sizes = {value.array.shape[1] for each in dataset.train for value in each.instance.values()}  # type: ignore[union-attr]
    if len(sizes) > 1:
        raise DataError(f"points have {', '.join(map(str, sorted(sizes)))} numbers; all have as many")
    return Blueprint(PointerConfig(features=sizes.pop(), **preset.sizes), (), {})


PRESETS = {
    "tiny": tiny(d=8, max_points=16),
    "demo": preset(12, 32, 4e-3, patience=4),
    "full": preset(20, 64, 2e-3, patience=4).sized(d=128, max_points=128),
    "paper": preset(100, 128, 1e-3, patience=10).sized(d=512, max_points=128),
}

POINTER_NETWORK = Recipe(
    PointerConfig, PointerNetwork, card, prepare, PRESETS, task=Point(), data=rows.POINTS, builtin=points.hull
)
# What the paper compares it with: attention whose context an output layer of fixed places reads.
POINTER_NETWORK_FIXED = POINTER_NETWORK.changed(points=False)
