"""Sparse Transformer, M1 (Child et al. 2019): fixed patterns of about √n keys reach everything in two steps.

§4.3 of the paper, l the stride. Heads have both fixed patterns at once (§4.2, "merged"); of the strided ones, half of
the heads have the first, half the second.
"""

import torch
from torch import Tensor

from limelight_models.attention.effective.blocks import Blocks, LastKeys, Lists, around, of_blocks, of_remainders
from limelight_models.attention.effective.groups import HeadGroups
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class Column(Blocks):
    """Strided A⁽²⁾_i = {j ≤ i: (i - j) mod l = 0}: every l-th position, a block for each remainder."""

    def __init__(self, stride: int) -> None:
        super().__init__(causal=True)
        self.stride = stride

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        return of_remainders(key, self.stride)


class Fixed(Blocks):
    """A_i = {j ≤ i: ⌊j / l⌋ = ⌊i / l⌋ or j mod l ∈ columns}: the own block, and c columns of each before it.

    Both patterns merged; the columns are the last c of a block, the c before them for the next head, and so on.
    """

    def __init__(self, stride: int, columns: int) -> None:
        super().__init__(causal=True)
        self.stride, self.columns = stride, columns

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        near = of_blocks(key, self.stride, around(key, self.stride, 0, 0)[None, None])
        head, block = (torch.arange(size, device=key.device) for size in (key.shape[1], near.asked.shape[2]))
        end = self.stride - self.columns * (head % (self.stride // max(self.columns, 1)))
        columns = end.unsqueeze(-1) - self.columns + torch.arange(self.columns, device=key.device)  # [head, column]
        far = (block[:, None, None] * self.stride + columns).transpose(0, 1).flatten(1)  # [head, block × column]
        behind = far[:, None] >= block[:, None] * self.stride  # [head, block, block × column]
        read = torch.where(behind, -1, far[:, None])[None]
        return near._replace(read=torch.cat([near.read.expand(-1, key.shape[1], -1, -1), read], -1))


class SparseConfig(LongConfig):
    """Sizes. stride: l. columns: c, none for blocks alone. strided: patterns for what repeats, as pictures do.

    Strided, A⁽¹⁾_i = {j ≤ i: i - j ≤ l}.
    """

    stride: int = 64
    columns: int = 4
    strided: bool = False

    def attention(self) -> Fixed | HeadGroups:
        if not self.strided:
            return Fixed(self.stride, self.columns)
        return HeadGroups([LastKeys(self.stride), Column(self.stride)])


def card(network: LongEncoder, blueprint: Blueprint[SparseConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Sparse Transformer",
        summary="Classifies a long text by heads that see what is near, and heads that see a few places of everything.",
        taxonomy="scaled multiplicative, alignment: factorised pattern, self-attentive, multi-head",
        citation="Child, Gray, Radford, Sutskever (2019): Generating Long Sequences with Sparse Transformers. arXiv",
        **parts(network, blueprint),
    )


# Of Enwik8 (§7.2): fixed and merged, l = 128, c = 32, 12,288 bytes, half of the usual width of the hidden layer.
PRESETS = presets(
    preset(80, 32, 3.5e-4, patience=80, vocabulary=8000).sized(
        d_model=512, layers=30, heads=8, d_hidden=1024, dropout=0.4, stride=128, columns=32, max_tokens=12_288
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(stride=3, columns=1)

SPARSE_TRANSFORMER = classifying_texts(SparseConfig, LongEncoder, card, PRESETS, builtin=builtin)
SPARSE_TRANSFORMER_STRIDED = SPARSE_TRANSFORMER.changed(strided=True)
SPARSE_TRANSFORMER_LOCAL = SPARSE_TRANSFORMER.changed(columns=0)
