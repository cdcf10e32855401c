"""Differential Transformer, T2 (Ye et al. 2024): of two softmaxes over the same tokens one is taken from the other.

§2.1 of the paper: what both give to everything cancels, as noise does in a differential amplifier. Its weights are
signed. The layer around is the plain Transformer's; the paper's rotary positions are sines here.
"""

import math

import torch
from torch import Tensor, nn

from limelight_models.attention import Attention
from limelight_models.attention.context import Context
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class Factor(nn.Module):
    """λ = exp(λ_q1ᵀ λ_k1) - exp(λ_q2ᵀ λ_k2) + λ_init (eq. 2), for vectors of d features; the same for all heads."""

    def __init__(self, *, d: int, begins: float) -> None:
        super().__init__()
        self.begins = begins
        self.query, self.key = (nn.Parameter(0.1 * torch.randn(2, d)) for _ in range(2))

    def forward(self) -> Tensor:
        first, second = (self.query * self.key).sum(-1).exp()
        return first - second + self.begins


class Difference(Attention):
    """A = softmax(Q₁ K₁ᵀ / √d) - λ softmax(Q₂ K₂ᵀ / √d) (eq. 1).

    Shapes: as `Attention`; query [Q₁; Q₂] and key [K₁; K₂] [batch, head, position, 2 d].
    """

    normalised, signed = False, True
    deciding = ("factor",)

    def __init__(self, *, d: int, begins: float) -> None:
        super().__init__(score=ScaledDot())
        self.factor = Factor(d=d, begins=begins)

    def _as_dot(self, query: Tensor | None, key: Tensor) -> None:
        """It is no softmax of one product."""

    def _weights(
        self, query: Tensor | None, key: Tensor, value: Tensor, mask: Tensor | None, context: Context | None
    ) -> tuple[Tensor, Context]:
        assert query is not None
        (first, used), (second, _) = (
            super(Difference, self)._weights(q, k, value, mask, context)
            for q, k in zip(query.chunk(2, -1), key.chunk(2, -1), strict=True)
        )
        return first - self.factor() * second, used


class DifferentialHeads(MultiHead):
    """W_O [head_1; …; head_H], head_h = (1 - λ_init) norm(A_h V_h), each normed by itself (eq. 3).

    Shapes: as `MultiHead`.
    """

    def __init__(self, *, d_model: int, heads: int, begins: float) -> None:
        attention = Difference(d=d_model // heads // 2, begins=begins)
        super().__init__(attention=attention, d_model=d_model, heads=heads, bias=False)
        self.left, self.norm = 1 - begins, nn.RMSNorm(d_model // heads, 1e-5, elementwise_affine=False)

    def join(self, context_vectors: Tensor) -> Tensor:
        return super().join(self.left * self.norm(context_vectors))


class DifferentialConfig(LongConfig):
    """Sizes; heads are half as many as in a Transformer of this size. softmax: attend as Transformers do."""

    looks_back = True
    softmax: bool = False

    def attention(self) -> Attention:
        return Attention(score=ScaledDot())

    def multi_head(self, number: int) -> MultiHead:
        if self.softmax:
            return super().multi_head(number)
        begins = 0.8 - 0.6 * math.exp(-0.3 * number)  # λ_init of layer `number`, from 0
        return DifferentialHeads(d_model=self.d_model, heads=self.heads, begins=begins)


def card(network: LongEncoder, blueprint: Blueprint[DifferentialConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Differential Transformer",
        summary="Classifies a long text by the difference of two softmaxes, in which what both look at cancels.",
        taxonomy="scaled multiplicative, alignment: signed difference, self-attentive, multi-head",
        citation="Ye, Dong, Xia, Sun, Zhu, Huang, Wei (2024): Differential Transformer. ICLR",
        **parts(network, blueprint),
    )


# Its model of 3 billion parameters: 28 layers of 12 heads of 256 features. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 3.2e-4, patience=2, vocabulary=8000).sized(d_model=3072, layers=28, heads=12, d_hidden=8192)
)

DIFFERENTIAL_TRANSFORMER = classifying_texts(DifferentialConfig, LongEncoder, card, PRESETS, builtin=builtin)
DIFFERENTIAL_TRANSFORMER_SOFTMAX = DIFFERENTIAL_TRANSFORMER.changed(softmax=True)
