"""Sinkhorn Transformer, M7 (Tay et al. 2020): blocks of keys are sorted, so that blocks that stand far apart can meet.

§3 of the paper; SortCut (§3.3) reads the first of the sorted blocks alone. Sorted blocks are mixtures, by a matrix that
is nearly a permutation; what weight a token gets is that of its place in them times its block's share.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from limelight_models.attention.alignment import softmax
from limelight_models.attention.effective.blocks import gathered, in_blocks, scaled
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.linear import HeadLinear
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets

ITERATIONS = 8


class Sorted(NamedTuple):
    """Queries [batch, head, query, d], and keys as blocks of them read these [batch, head, block or 1, slot, d].

    order: S [batch, head, block, block]. there: BOOL [batch or 1, 1, block, place], the keys in blocks. slots: BOOL
    [batch or 1, 1, block or 1, slot], where there is something to read.
    """

    query: Tensor
    key: Tensor
    order: Tensor
    there: Tensor
    slots: Tensor


class Sinkhorn(Effective[Sorted]):
    """softmax of q_iᵀ k_j / √d over the own block and the one that is sorted to its place (§3.1, 3.2).

    S⁰ = exp(P(ψ(K))), ψ sums of blocks, P(x) = W₂ relu(W₁ x + b₁) + b₂;  S^t = columns(rows(S^{t-1})), each divided by
    its sum;  K' = S K, V' = S V

    cut: SortCut; all queries read the first so many sorted blocks instead. Keys that are not there are zeros in K'.

    Shapes: as `Effective`, of so many heads of d features, and of at most so many tokens.
    """

    normalised = False  # rows of S sum to about 1, and keys that are not there have a share

    def __init__(self, *, heads: int, d: int, tokens: int, block: int, cut: int = 0) -> None:
        super().__init__()
        self.block, self.cut, self.most = block, cut, tokens // block + 2
        self.hidden = HeadLinear(d_in=d, d_out=d, heads=heads, bias=True)
        self.place = HeadLinear(d_in=d, d_out=self.most, heads=heads, bias=True)

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Sorted:
        places = in_blocks(key, self.block)[None, None]
        there = places < key.shape[2]
        if mask is not None:
            there = there & gathered(mask.transpose(-2, -1), places)[..., 0]
        order = self.order(gathered(key, places) * there.unsqueeze(-1), there.any(-1))
        first = there[:, :, :1]  # a place that the first block has is in a mixture of any
        if self.cut:
            number = torch.arange(self.cut, device=key.device)
            slots = (
                first.unsqueeze(-2) & (number.unsqueeze(-1) < there.any(-1).sum(-1)[..., None, None, None])
            ).flatten(3)
        else:
            slots = torch.cat([there, first & there.any(-1, keepdim=True)], -1)
        return Sorted(query, self.read(key, order, there), order, there, slots)

    def order(self, blocks: Tensor, there: Tensor) -> Tensor:
        """S of blocks [batch, head, block, place, d] of which some are there [batch, 1, block]."""
        number = torch.arange(blocks.shape[2], device=blocks.device).clamp(max=self.most - 1)
        scores = self.place(torch.relu(self.hidden(blocks.sum(3))))[..., number]
        both = there.unsqueeze(-1) & there.unsqueeze(-2)
        scores = scores.masked_fill(~both, torch.finfo(scores.dtype).min / 4)
        for _ in range(ITERATIONS):
            for axis in (-1, -2):
                scores = (scores - scores.logsumexp(axis, keepdim=True)).masked_fill(
                    ~both, torch.finfo(scores.dtype).min / 4
                )
        return scores.exp() * both

    def read(self, sequence: Tensor, order: Tensor, there: Tensor) -> Tensor:
        """What blocks of queries read of keys or values: [batch, head, block or 1, slot, d]."""
        blocks = gathered(sequence, in_blocks(sequence, self.block)[None, None]) * there.unsqueeze(-1)
        if not self.cut:
            return torch.cat([blocks, torch.einsum("bhij,bhjsd->bhisd", order, blocks)], 3)
        number = torch.arange(self.cut, device=order.device).clamp(max=order.shape[2] - 1)
        return torch.einsum("bhij,bhjsd->bhisd", order[:, :, number], blocks).flatten(2, 3).unsqueeze(2)

    def sums(self, prepared: Sorted, value: Tensor) -> Tensor:
        query, key, order, there, slots = prepared
        scores = gathered(scaled(query), in_blocks(query, self.block)[None, None]) @ key.transpose(-2, -1)
        found = softmax(scores, slots.unsqueeze(-2)) @ self.read(value, order, there)
        return found.flatten(2, 3)[:, :, torch.arange(query.shape[2], device=query.device)]

    def rows(self, prepared: Sorted, index: Tensor) -> Tensor:
        query, key, order, there, slots = prepared
        own, every = index // self.block, torch.arange(query.shape[2], device=query.device)
        block, place = every // self.block, every % self.block
        of = own * 0 if self.cut else own  # which of what is read
        scores = scaled(query[:, :, index]).unsqueeze(-2) @ key[:, :, of].transpose(-2, -1)
        weights = softmax(scores.squeeze(-2), slots[:, :, of])
        if self.cut:
            shares = order[..., block]
            found = sum(
                weights[..., number * self.block + place] * shares[:, :, number : number + 1]
                for number in range(self.cut)
            )
        else:
            found = weights[..., place] * (block == own.unsqueeze(-1))
            found = found + weights[..., self.block + place] * order[:, :, own][..., block]
        return found * there[:, :, block, place].unsqueeze(2)


class SinkhornConfig(LongConfig):
    """Sizes. block: tokens of a block. cut: sorted blocks that all queries read, for SortCut."""

    block: int = 32
    cut: int = 0

    def attention(self) -> Sinkhorn:
        return Sinkhorn(heads=self.heads, d=self.d_head, tokens=self.max_tokens, block=self.block, cut=self.cut)


def card(network: LongEncoder, blueprint: Blueprint[SinkhornConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Sinkhorn Transformer",
        summary="Classifies a long text by attention to the own block of tokens and to one that is sorted beside it.",
        taxonomy="scaled multiplicative, alignment: sorted blocks, self-attentive, multi-head",
        citation="Tay, Bahri, Yang, Metzler, Juan (2020): Sparse Sinkhorn Attention. ICML",
        **parts(network, blueprint),
    )


# Its classifier of documents (§4): small sizes of Tensor2Tensor. What it leaves out is as usual.
PRESETS = presets(
    preset(30, 32, 1e-3, patience=30, vocabulary=32_000).sized(
        d_model=256, layers=2, heads=4, d_hidden=1024, max_tokens=2048
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(block=3)

SINKHORN = classifying_texts(SinkhornConfig, LongEncoder, card, PRESETS, builtin=builtin)
SINKHORN_SORTCUT = SINKHORN.changed(cut=2)
