"""Disagreement of heads (H8): heads should see different things, look elsewhere, or say something else.

Each function is the heads' mean agreement over all pairs (i, j), i = j included: the negative of the paper's D, which
training maximises. Add it to the loss.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from limelight_models.attention.alignment import in_single
from limelight_models.attention.signals.mean import mean_where


def subspace_agreement(value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Similarity of the heads' values (Li et al. 2018b, eq. 7; survey G §3.4.1).

    L = 1/H² Σ_ij cos(V^i, V^j), position by position

    Shapes: value [batch, head, key, d], mask [batch, key] -> a number.
    """
    return mean_cosine(value, mask)


def position_agreement(weights: Tensor, mask: Tensor | None = None) -> Tensor:
    """Overlap of the heads' weights (Li et al. 2018b, eq. 8; survey G §3.4.1).

    L = 1/H² Σ_ij Σ |A^i ⊙ A^j|, mean over queries

    Shapes: weights [batch, head, query, key], mask of queries [batch, query] -> a number.
    """
    # Σ_ij |A^i ⊙ A^j| = (Σ_i |A^i|)²: no head meets another in memory.
    overlap = in_single(weights).abs().mean(1).square().sum(-1)
    return mean_where(overlap, mask)


def output_agreement(context_vectors: Tensor, mask: Tensor | None = None) -> Tensor:
    """Similarity of the heads' context vectors (Li et al. 2018b, eq. 9; survey G §3.4.1).

    L = 1/H² Σ_ij cos(O^i, O^j), query by query

    Shapes: context vectors [batch, head, query, d], mask [batch, query] -> a number.
    """
    return mean_cosine(context_vectors, mask)


def mean_cosine(vectors: Tensor, mask: Tensor | None) -> Tensor:
    """Cosine of all pairs of heads, mean over pairs and positions: the squared length of the mean unit vector."""
    unit = normalize(in_single(vectors), dim=-1, eps=torch.finfo(torch.float32).tiny ** 0.5)
    return mean_where(unit.mean(1).square().sum(-1), mask)
