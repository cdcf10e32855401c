"""Kernelised attention with relative positions, M18 (Luo et al. 2021): Performer's sums, weighted by distance.

§3 of the paper: sums over keys times numbers of their distances are products with a Toeplitz matrix, which it does by
fast Fourier transforms in n log n. Here all distances beyond one have that one's number (as in T5, Raffel et al. 2020),
and with such numbers sums of whole chunks give the same in linear time. Queries and keys have length 1.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.blocks import gathered, in_blocks, there
from limelight_models.attention.effective.kernel import Features, before_each, out_of_chunks
from limelight_models.attention.effective.random import Favor
from limelight_models.attention.score.similarity import unit
from limelight_models.recipes import Blueprint, Card, classifying_texts, preset
from limelight_models.zoo.long.encoder import LongConfig, LongEncoder, builtin, parts, presets


class Recent(NamedTuple):
    """Σ φ(k) [v; 1]ᵀ [batch, head, m, d_v + 1] of tokens beyond the farthest; φ(k) and [v; 1] of those since then."""

    beyond: Tensor
    key: Tensor
    value: Tensor


class RelativeKernel(Favor):
    """z_i = φ(q_i)ᵀ Σ_j e^{b_{j-i}} φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j e^{b_{j-i}} φ(k_j), φ as in `Favor` (§3).

    b of each head, one for every distance from -farthest to farthest; beyond, the last of its side. Features are of
    q / ‖q‖ and k / ‖k‖ and estimate exp(q̂ᵀ k̂); without `normalised_vectors` of q and k, and exp(qᵀ k / √d).

    Queries stand in chunks of `farthest`: keys of the own chunk and of those beside it are weighted one by one, and
    sums of all other chunks, whose keys are beyond, by the last b of their side.

    Shapes: as `KernelSums`, of so many heads and as many queries as keys.
    """

    def __init__(
        self, *, d: int, heads: int, features: int, farthest: int, normalised_vectors: bool = True, causal: bool = False
    ) -> None:
        super().__init__(d=d, features=features, causal=causal)
        self.farthest, self.normalised_vectors = farthest, normalised_vectors
        self.b = nn.Parameter(torch.zeros(heads, 2 * farthest + 1))

    def features(self, query: Tensor, key: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        if self.normalised_vectors:
            query, key = (unit(x) * x.shape[-1] ** 0.25 for x in (query, key))  # which `Favor` divides by
        return super().features(query, key, mask)

    def by_distance(self, distance: Tensor) -> Tensor:
        """e^{b_{j-i}} of INT64 j - i [query, key], 0 for what may not be seen: [head, query, key]."""
        found = self.b.exp()[:, distance.clamp(-self.farthest, self.farthest) + self.farthest]
        return found * (distance <= 0) if self.causal else found

    def summed(self, prepared: Features, value: Tensor) -> Tensor:
        size, (query, key, _) = self.farthest, prepared
        asked = in_blocks(key, size)  # [chunk, place]
        beside = torch.arange(-size, size if self.causal else 2 * size, device=key.device)
        read = there(key, asked[:, :1] + beside)  # [chunk, 2 or 3 times as many places]
        own, near = (key_of(key, places[None, None]) for places in (there(key, asked), read))
        weights = self.by_distance(beside - torch.arange(size, device=key.device).unsqueeze(-1)).unsqueeze(1)
        query = gathered(query, asked[None, None])
        found = (query @ near.transpose(-2, -1) * weights) @ gathered(value, read[None, None])
        totals = own.transpose(-2, -1) @ gathered(value, asked[None, None])  # [batch, head, chunk, m, d_v]
        before, behind = (before_each(before_each(each.cumsum(2))) for each in (totals, totals.flip(2)))
        first, last = (self.b[:, place, None, None, None].exp() for place in (0, -1))
        beyond = first * before if self.causal else first * before + last * behind.flip(2)
        return out_of_chunks(found + query @ beyond, key.shape[2])

    def rows(self, prepared: Features, index: Tensor) -> Tensor:
        distance = torch.arange(prepared.key.shape[2], device=index.device) - index.unsqueeze(-1)
        found = prepared.query[:, :, index] @ prepared.key.transpose(-2, -1) * self.by_distance(distance)
        return self.divided(found, found.sum(-1, keepdim=True))

    def step(  # type: ignore[override]
        self, query: Tensor, key: Tensor, value: Tensor, before: Recent | None = None
    ) -> tuple[Tensor, Recent]:
        """As `KernelSums.step`, from the last tokens one by one and a sum of those before them."""
        asked, key = self.features(query, key, None)
        value = torch.cat([value, torch.ones_like(value[..., :1])], -1)
        beyond = torch.zeros_like(key.transpose(-2, -1) @ value) if before is None else before.beyond
        if before is not None:
            key, value = torch.cat([before.key, key], 2), torch.cat([before.value, value], 2)
        if key.shape[2] > self.farthest:
            beyond = beyond + key[:, :, :1].transpose(-2, -1) @ value[:, :, :1]
            key, value = key[:, :, 1:], value[:, :, 1:]
        distance = torch.arange(1 - key.shape[2], 1, device=key.device).unsqueeze(0)
        found = (asked @ key.transpose(-2, -1) * self.by_distance(distance)) @ value
        found = found + self.b[:, :1, None].exp() * (asked @ beyond)
        return self.divided(found[..., :-1], found[..., -1:]), Recent(beyond, key, value)


def key_of(key: Tensor, places: Tensor) -> Tensor:
    """Features of the keys at these places, INT64 [1, 1, chunk, place], zeros where they are -1."""
    return gathered(key, places) * (places >= 0).unsqueeze(-1)


class RelativeConfig(LongConfig):
    """Sizes. features: random ones of a head. farthest: the distance beyond which all count alike.

    normalised_vectors: whether queries and keys have length 1. causal: whether a token looks at those before it alone.
    """

    features: int = 64
    farthest: int = 64
    normalised_vectors: bool = True
    causal: bool = False

    def attention(self) -> RelativeKernel:
        return RelativeKernel(
            d=self.d_head,
            heads=self.heads,
            features=self.features,
            farthest=self.farthest,
            normalised_vectors=self.normalised_vectors,
            causal=self.causal,
        )


def card(network: LongEncoder, blueprint: Blueprint[RelativeConfig]) -> Card:
    """Describe the model."""
    return blueprint.card(
        network,
        title="Kernelised attention with relative positions",
        summary="Classifies a long text by sums of random features, which each token weighs by distance.",
        taxonomy="scoring: generalised kernel, alignment: kernel ratio, self-attentive, multi-head",
        citation="Luo, Li, Cai, He, Peng, Zheng, Ke, Wang, Liu (2021): Stable, Fast and Accurate: Kernelized Attention "
        "with Relative Positional Encoding. NeurIPS",
        **parts(network, blueprint),
    )


# RoBERTa-base's sizes, which it trains on other tasks than classes. What it leaves out is as usual.
PRESETS = presets(
    preset(10, 32, 1e-4, patience=2, vocabulary=32_000).sized(
        d_model=768, layers=12, heads=12, d_hidden=3072, max_tokens=512
    )
)
PRESETS["tiny"] = PRESETS["tiny"].sized(farthest=3)

RELATIVE_KERNEL = classifying_texts(RelativeConfig, LongEncoder, card, PRESETS, builtin=builtin)
RELATIVE_KERNEL_UNNORMALISED = RELATIVE_KERNEL.changed(normalised_vectors=False)
RELATIVE_KERNEL_CAUSAL = RELATIVE_KERNEL.changed(causal=True)
