"""Long–short Transformer, M16 (Zhu et al. 2021): near tokens and a few summaries of all share one softmax.

§3 of the paper. What it puts together is made of the tokens themselves ("dynamic projection"). Its two norms (DualLN)
are of keys alone here: that of a summary of values is no sum of values, so that no weights of tokens would give
what it gives. Windows are centred at each token, where the paper moves them by segments.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import softmax
from limelight_models.attention.effective.blocks import Band, Blocked, Lists
from limelight_models.attention.effective.core import Effective
from limelight_models.attention.queries.gated_keys import GatedKeys
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class Window(Band):
    """Scaled dot products with r keys that stand before all others, and with those at most `band` away.

    Shapes: as `Effective`; key [batch, head, r + query, d].
    """

    def __init__(self, band: int, r: int) -> None:
        super().__init__(band)
        self.r = r

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        near = super().lists(query, query, mask)
        before = torch.arange(self.r, device=key.device).expand(*near.read.shape[:3], -1)
        return near._replace(read=torch.cat([before, torch.where(near.read < 0, -1, near.read + self.r)], -1))

    def within(self, query: Tensor, key: Tensor) -> Tensor:
        return (key < self.r) | super().within(query + self.r, key)


class Summaries(NamedTuple):
    """What the window reads, and Pᵀ [batch, head, r, key]."""

    near: Blocked
    inward: Tensor


class LongShortAttention(Effective[Summaries]):
    """y_i = softmax(q_i [K̄; K_window]ᵀ / √d) [V̄; V_window], K̄ = norm(Pᵀ K), V̄ = Pᵀ V.

    P = softmax(X W_P) over positions. Effective weights: those of the window, and those of the summaries times Pᵀ.

    norms: whether keys of a window and those of summaries are normalised, each by gains of their own.

    Shapes: as `Effective`, of as many queries as keys; key [k; X W_P], of d + r features.
    """

    def __init__(self, *, d: int, window: int, r: int, norms: bool = True) -> None:
        super().__init__()
        self.window = Window(window, r)
        self.near_norm, self.far_norm = (nn.LayerNorm(d) if norms else nn.Identity() for _ in range(2))

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Summaries:
        d = query.shape[-1]
        inward = softmax(key[..., d:].transpose(-2, -1), mask)
        key = key[..., :d]
        keys = torch.cat([self.far_norm(inward @ key), self.near_norm(key)], 2)
        if mask is not None:
            mask = torch.cat([mask.any(-1, keepdim=True).expand(-1, -1, -1, self.window.r), mask], -1)
        return Summaries(self.window.prepare(query, keys, mask), inward)

    def sums(self, prepared: Summaries, value: Tensor) -> Tensor:
        return self.window.sums(prepared.near, torch.cat([prepared.inward @ value, value], 2))

    def rows(self, prepared: Summaries, index: Tensor) -> Tensor:
        found, r = self.window.rows(prepared.near, index), self.window.r
        return found[..., r:] + found[..., :r] @ prepared.inward


class LongShortConfig(LongConfig):
    """Sizes. window: how far a near token is at most. r: summaries. norms: whether keys are normalised."""

    window: int = 16
    r: int = 32
    norms: bool = True

    def attention(self) -> LongShortAttention:
        return LongShortAttention(d=self.d_head, window=self.window, r=self.r, norms=self.norms)

    def multi_head(self, number: int) -> MultiHead:
        return GatedKeys(self.attention(), d_model=self.d_model, heads=self.heads, gates=self.r, bias=False)


def card(network: LongEncoder, blueprint: Blueprint[LongShortConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Long–short Transformer",
        summary="Classifies a long text by attention to near tokens and to a few summaries of all.",
        taxonomy="scaled multiplicative, local, alignment: low rank, self-attentive, multi-head",
        citation="Zhu, Ping, Xiao, Shoeybi, Goldstein, Anandkumar, Catanzaro (2021): Long-Short Transformer: Efficient "
        "Transformers for Language and Vision. NeurIPS",
        **parts(network, blueprint),
    )


# Of the Long Range Arena: 2 layers of 2 heads, windows of 8 and 32 summaries; texts of 4,096 tokens.
PRESETS = presets(
    preset(30, 32, 1e-4, patience=30, vocabulary=512).sized(
        d_model=64, layers=2, heads=2, d_hidden=128, window=8, max_tokens=4096
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(window=2, r=3)

LONG_SHORT = classifying_texts(LongShortConfig, LongEncoder, card, PRESETS, builtin=builtin)
LONG_SHORT_PLAIN = LONG_SHORT.changed(norms=False)
