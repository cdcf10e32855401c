"""Native sparse attention, T5 (Yuan et al. 2025): blocks seen in brief, a few blocks chosen by that, and a window.

§3 of the paper, whose three branches have gates that each token sets. Here they share keys and values, blocks do not
overlap, and all heads choose together, as one group of its grouped queries. φ, by which a block is seen in brief, is a
weighted mean with trained weights of places, not a network: so what a key comes to weigh is exact.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import softmax
from limelight_models.attention.effective.blocks import (
    Blocked,
    Blocks,
    LastKeys,
    gathered,
    in_blocks,
    largest,
    of_each,
    scaled,
)
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets

NEARER = 2.0**-20  # what a block's distance takes from its score, so that no two are equal


class Branches(NamedTuple):
    """Gates [batch, head, query, 3], p^cmp [batch, head, query, block], and what two branches prepare."""

    gates: Tensor
    brief: Tensor
    chosen: Blocked
    near: Blocked


class NativeSparse(Effective[Branches]):
    """o_t = Σ_c g_t^c Attn(q_t, K̃_t^c, Ṽ_t^c), c of cmp, slc, win (eq. 5), g = sigmoid of what queries carry behind q.

    cmp: k̃_b = Σ_p softmax(u)_p k_{bl+p}, ṽ_b likewise, of blocks that end before t or at it (eq. 7);  p^cmp_t =
    softmax(q_tᵀ K̃ / √d) (eq. 8);  slc: the n blocks of the largest p^cmp, summed over heads (eq. 10–11), the first
    block, the own one and that before it among them;  win: the last w tokens.

    Shapes: as `Effective`, of so many heads; query [q; 3 numbers].
    """

    normalised = False

    def __init__(self, *, heads: int, block: int, most: int, window: int) -> None:
        super().__init__(causal=True)
        self.block, self.most = block, most
        self.key_places, self.value_places = (nn.Parameter(torch.zeros(heads, block)) for _ in range(2))
        self.chosen, self.near = Blocks(causal=True), LastKeys(window - 1)

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Branches:
        query, gates, key = query[..., :-3], query[..., -3:].sigmoid(), key[..., : query.shape[-1] - 3]
        there = key.new_ones((1, 1, 1, key.shape[2]), dtype=torch.bool) if mask is None else mask
        begin = in_blocks(key, self.block)[:, 0]
        place = torch.arange(query.shape[2], device=query.device).unsqueeze(-1)
        begun, ended = (
            (place >= at) & there[..., at.clamp(max=key.shape[2] - 1)] for at in (begin, begin + self.block - 1)
        )
        brief = softmax(scaled(query) @ self.in_brief(key, self.key_places).transpose(-2, -1), ended)
        away = torch.div(place, self.block, rounding_mode="floor") - begin // self.block
        score = brief.mean(1, keepdim=True).masked_fill((begin == 0) | (away <= 1), 2) - NEARER * away
        blocks = largest(score.masked_fill(~begun, -torch.inf), self.most)
        read = (blocks.unsqueeze(-1) * self.block + torch.arange(self.block, device=key.device)).flatten(-2)
        chosen = Blocked(query, key, of_each(key, read), mask)
        return Branches(gates, brief, chosen, self.near.prepare(query, key, mask))

    def in_brief(self, sequence: Tensor, places: Tensor) -> Tensor:
        """φ of the blocks of keys or values: [batch, head, block, d]."""
        blocks = gathered(sequence, in_blocks(sequence, self.block)[None, None])
        return (blocks * places.softmax(-1)[:, None, :, None]).sum(3)

    def sums(self, prepared: Branches, value: Tensor) -> Tensor:
        gates, brief, chosen, near = prepared
        seen = brief @ self.in_brief(value, self.value_places)
        return gated(gates, seen, self.chosen.sums(chosen, value), self.near.sums(near, value))

    def rows(self, prepared: Branches, index: Tensor) -> Tensor:
        gates, brief, chosen, near = prepared
        place = torch.arange(chosen.key.shape[2], device=index.device)
        shares = self.value_places.softmax(-1)[:, place % self.block].unsqueeze(1)
        seen = brief[:, :, index][..., torch.div(place, self.block, rounding_mode="floor")] * shares
        return gated(gates[:, :, index], seen, self.chosen.rows(chosen, index), self.near.rows(near, index))


def gated(gates: Tensor, brief: Tensor, chosen: Tensor, near: Tensor) -> Tensor:
    """Σ_c g^c times what branch c found, [batch, head, query, …]."""
    return gates[..., :1] * brief + gates[..., 1:2] * chosen + gates[..., 2:] * near


class GatedBranches(MultiHead):
    """Multi-head attention whose queries carry the gates of three branches in each head, made of the token.

    Shapes: as `MultiHead` of features that attend to themselves.
    """

    def __init__(self, attention: NativeSparse, *, d_model: int, heads: int) -> None:
        super().__init__(attention=attention, d_model=d_model, heads=heads)
        self.gate_map = nn.Linear(d_model, 3 * heads)

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """[q; gates], k and v."""
        q, k, v = super().project(query, key, value)
        return torch.cat([q, self.split(self.gate_map(query))], -1), k, v


class NativeConfig(LongConfig):
    """Sizes. block: l, tokens of a block. most: n, blocks that a query chooses; 0 for a window alone. window: w."""

    block: int = 16
    most: int = 4
    window: int = 32

    def multi_head(self, number: int) -> MultiHead:
        if not self.most:
            return MultiHead(attention=LastKeys(self.window - 1), d_model=self.d_model, heads=self.heads)
        attention = NativeSparse(heads=self.heads, block=self.block, most=self.most, window=self.window)
        return GatedBranches(attention, d_model=self.d_model, heads=self.heads)


def card(network: LongEncoder, blueprint: Blueprint[NativeConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Native sparse attention",
        summary="Classifies a long text by blocks seen in brief, a few blocks chosen by that, and a window.",
        taxonomy="scaled multiplicative, alignment: top-k, self-attentive, multi-head",
        citation="Yuan, Gao, Dai, Luo, Zhao, Zhang, Xie, Wei, Wang, Xiao, Wang, Ruan, Zhang, Liang, Zeng (2025): "
        "Native Sparse Attention: Hardware-Aligned and Natively Trainable Sparse Attention. ACL",
        **parts(network, blueprint),
    )


# Its model of 27 billion parameters (§4.1): 30 layers of 64 heads, 16 blocks, windows of 512. Rest as usual.
PRESETS = presets(
    preset(10, 32, 3e-4, patience=2, vocabulary=8000).sized(
        d_model=2560, layers=30, heads=64, d_hidden=10_240, block=64, most=16, window=512
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(block=3, most=2, window=3)

NATIVE_SPARSE = classifying_texts(NativeConfig, LongEncoder, card, PRESETS, builtin=builtin)
NATIVE_SPARSE_WINDOW = NATIVE_SPARSE.changed(most=0)
