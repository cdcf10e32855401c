"""Efficient attention, R10 (Shen et al. 2021): queries and keys are normalised apart, so that keys meet values first.

§3.2 of the paper: features of the keys are global maps of the text, of which values are summed; a query mixes the sums.
"""

import torch
from torch import Tensor

from limelight_models.attention.effective.kernel import KernelSums
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class EfficientAttention(KernelSums):
    """E(Q, K, V) = ρ_q(Q) (ρ_k(K)ᵀ V) (eq. 3 and 4); the weights are ρ_q(Q) ρ_k(K)ᵀ.

    ρ_q: softmax over the features of a query; ρ_k: softmax over the positions of a feature. So a query's weights sum to
    Σ_f ρ_q(q)_f Σ_j ρ_k(K)_jf = 1 and no sum has to be divided.
    scaling: ρ_q(Y) = ρ_k(Y) = Y / √n for n keys, which is dot-product attention divided by n (§3.3), exactly.

    Shapes: as `KernelSums`; m = d.
    """

    divides = False

    def __init__(self, *, scaling: bool = False) -> None:
        super().__init__()
        self.scaling = self.signed = scaling
        self.normalised = not scaling

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        there = key.new_ones((1, 1, key.shape[2], 1), dtype=torch.bool) if mask is None else mask
        if self.scaling:
            return query, key / there.sum(2, keepdim=True).clamp(min=1)
        return query.softmax(-1), key.masked_fill(~there, torch.finfo(key.dtype).min).softmax(2)


class EfficientConfig(LongConfig):
    """Sizes. scaling: divide by the number of keys, and normalise nothing."""

    scaling: bool = False

    def attention(self) -> EfficientAttention:
        return EfficientAttention(scaling=self.scaling)


def card(network: LongEncoder, blueprint: Blueprint[EfficientConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Efficient attention",
        summary="Classifies a long text by a few global maps that each token mixes; cost is linear in the tokens.",
        taxonomy="scoring: generalised kernel, alignment: softmax of queries and of keys, self-attentive, multi-head",
        citation="Shen, Zhang, Zhao, Yi, Li (2021): Efficient Attention: Attention with Linear Complexities. WACV",
        **parts(network, blueprint),
    )


# Its modules, of one head, stand in networks of pictures; a layer of texts with such a module has no size of the paper.
PRESETS = presets(preset(10, 32, 1e-3, vocabulary=8000).sized(d_model=64, layers=1, heads=1, d_hidden=256))

EFFICIENT_ATTENTION = classifying_texts(EfficientConfig, LongEncoder, card, PRESETS, builtin=builtin)
EFFICIENT_ATTENTION_SCALING = EFFICIENT_ATTENTION.changed(scaling=True)
