"""BigBird, M8 (Zaheer et al. 2020): a query attends to its neighbours, to some random tokens, and to global ones.

§2 and appendix D of the paper, the form whose global tokens are the text's own first ones: all in blocks of one size.
"""

import torch
from torch import Tensor

from limelight_models.attention.effective.blocks import Blocks, Lists, around, of_blocks
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class SparseGraph(Blocks):
    """N(i) = G ∪ {blocks at most w from that of i} ∪ R_i, and all tokens where i is global (§2, appendix D).

    R_i: r blocks of the text that are in neither of the others, drawn once for a layer's head; one of each r-th part of
    those that are left, so that no block is drawn twice. They depend on how many blocks a text has, whose padding does
    not count.

    Shapes: as `Blocks`, of so many heads.
    """

    drawn: Tensor  # INT64 [head, block, r], of which what is left of a division says where

    def __init__(self, *, heads: int, tokens: int, block: int, window: int, global_: int, random: int) -> None:
        super().__init__(whole=global_ * block)
        self.block, self.window, self.global_, self.random = block, window, global_, random
        self.register_buffer("drawn", torch.randint(2**31, (heads, (tokens + block - 1) // block, random)))

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        near = around(key, self.block, self.window, self.window)  # [block, slot]
        own = near[:, self.window, None]
        everywhere = torch.arange(self.global_, device=key.device).expand(own.shape[0], -1)
        there = key.new_ones((1, 1, 1, key.shape[2]), dtype=torch.bool) if mask is None else mask
        blocks = (there.sum(-1, keepdim=True) + self.block - 1) // self.block  # [batch, 1, 1, 1]
        some = self.some(own, blocks)
        fixed = torch.cat([everywhere, torch.where(near < self.global_, -1, near)], -1)
        return of_blocks(key, self.block, torch.cat([fixed.expand(*some.shape[:2], -1, -1), some], -1))

    def some(self, own: Tensor, blocks: Tensor) -> Tensor:
        """R_i. Shapes: own [block, 1], blocks of each text [batch, 1, 1, 1] -> [batch, head, block, r], -1 for none."""
        first = (own - self.window).clamp(min=self.global_)
        near = (torch.minimum(own + self.window, blocks - 1) - first + 1).clamp(min=0)
        left = (blocks - self.global_ - near).clamp(min=0)
        part = torch.arange(self.random, device=own.device)
        begin, end = part * left // self.random, (part + 1) * left // self.random
        drawn = self.drawn[:, own.squeeze(-1).clamp(max=self.drawn.shape[1] - 1)]
        found = self.global_ + begin + drawn % (end - begin).clamp(min=1)
        return torch.where(end > begin, torch.where(found < first, found, found + near), -1)


class BigBirdConfig(LongConfig):
    """Sizes. block: tokens of a block. window: blocks on either side. global_, random: blocks (Table 8)."""

    block: int = 16
    window: int = 1
    global_: int = 1
    random: int = 2

    def attention(self) -> SparseGraph:
        return SparseGraph(
            heads=self.heads,
            tokens=self.max_tokens,
            block=self.block,
            window=self.window,
            global_=self.global_,
            random=self.random,
        )


def card(network: LongEncoder, blueprint: Blueprint[BigBirdConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="BigBird",
        summary="Classifies a long text by attention to neighbours, to random tokens and to a few that see everything.",
        taxonomy="scaled multiplicative, alignment: sparse graph, self-attentive, multi-head",
        citation="Zaheer, Guruganesh, Dubey, Ainslie, Alberti, Ontanon, Pham, Ravula, Wang, Yang, Ahmed (2020): "
        "Big Bird: Transformers for Longer Sequences. NeurIPS",
        **parts(network, blueprint),
    )


# Table 8, ITC: blocks of 64, 2 of them global, 3 of a window, 3 random; BERT's base size (§3) and texts of 4,096.
PRESETS = presets(
    preset(30, 32, 1e-4, patience=30, vocabulary=50_000).sized(
        d_model=768, layers=12, heads=12, d_hidden=3072, max_tokens=4096, block=64, global_=2, random=3
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(block=2, random=1)

BIGBIRD = classifying_texts(BigBirdConfig, LongEncoder, card, PRESETS, builtin=builtin)
# The parts of its Table 1: a window alone, and with random blocks.
BIGBIRD_WINDOW = BIGBIRD.changed(global_=0, random=0)
BIGBIRD_RANDOM = BIGBIRD.changed(global_=0)
