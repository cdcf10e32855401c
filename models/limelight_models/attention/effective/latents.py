"""Attention through a few latents between queries and keys: from keys to latents, and from there to queries."""

from typing import NamedTuple

import torch
from torch import Tensor

from limelight_models.attention.effective.core import Effective
from limelight_models.attention.errors import ShapeError
from limelight_models.attention.flat import share


class Latents(NamedTuple):
    """Weights of the latents for each query, and of the keys for each latent.

    outward [batch, head, query, latent]; inward [batch or 1, head or 1, latent, key], zeros for keys that are not
    there; mask as it was given.
    """

    outward: Tensor
    inward: Tensor
    mask: Tensor | None = None


class LatentSums(Effective[Latents]):
    """Attention whose weights are a product of two thin matrices.

    c = O (I V), O ∈ ℝ^{query × latent}, I ∈ ℝ^{latent × key};  effective map: O I

    A subclass gives both in `prepare`, without a nonlinear step between that would see the values.

    Shapes: as `Effective`.
    """

    def sums(self, prepared: Latents, value: Tensor) -> Tensor:
        return prepared.outward @ (prepared.inward @ value)

    def rows(self, prepared: Latents, index: Tensor) -> Tensor:
        return prepared.outward[:, :, index] @ prepared.inward


def segment_means(query: Tensor, key: Tensor, mask: Tensor | None, segments: int) -> Tensor:
    """Weights that average a sequence over so many segments of it, for landmarks of its queries and its keys.

    Place j of n is in segment ⌊j · segments / n⌋: they are equal where n can be divided, and else differ by one; where
    n is less than `segments`, some have no place, and zeros.

    Shapes: query and key [batch, head, position, d], mask [batch, 1, 1, position], its padding at the end -> [batch
        or 1, 1, segment, position].
    Raises: ShapeError where queries and keys are not as many.
    """
    if not torch.compiler.is_exporting() and query.shape[2] != key.shape[2]:
        raise ShapeError(f"landmarks are of one sequence; there are {query.shape[2]} queries and {key.shape[2]} keys")
    place = torch.arange(key.shape[2], device=key.device)
    there = (place >= 0)[None, None, None] if mask is None else mask
    segment = place * segments // there.sum(-1, keepdim=True).clamp(min=1)
    return share((segment == torch.arange(segments, device=key.device).unsqueeze(-1)) & there, key)


def pseudo_inverse(weights: Tensor, steps: int = 6) -> Tensor:
    """Approach the Moore–Penrose inverse of what is not negative, by products alone (§3; Razavi et al. 2014).

    Z ← ¼ Z (13 I - A Z (15 I - A Z (7 I - A Z))),  Z₀ = Aᵀ / (‖A‖₁ ‖A‖∞)

    Shapes: [batch, head, landmark, landmark] -> the same; rows and columns of zeros stay such.
    """
    one = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    norms = weights.sum(-2).amax(-1) * weights.sum(-1).amax(-1)
    found = weights.transpose(-2, -1) / torch.where(norms > 0, norms, torch.ones_like(norms))[..., None, None]
    for _ in range(steps):
        both = weights @ found
        found = found @ (13 * one - both @ (15 * one - both @ (7 * one - both))) / 4
    return found


def gaussian(first: Tensor, second: Tensor) -> Tensor:
    """exp(-‖x - y‖² / 2√d) by dot products. Shapes: [batch, head, x, d], [batch, head, y, d] -> [batch, head, x, y]."""
    squared = (each.square().sum(-1, keepdim=True) for each in (first, second))
    away = next(squared) + next(squared).transpose(-2, -1) - 2 * first @ second.transpose(-2, -1)
    return (away.clamp(min=0) / (-2 * first.shape[-1] ** 0.5)).exp()
