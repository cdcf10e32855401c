"""Attention over attention (G7): how much to trust each row of one attention is said by the other."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import Align
from limelight_models.attention.features.aggregate import Aggregate, Side
from limelight_models.attention.features.pair import Pair
from limelight_models.attention.features.perceptron import both_ways
from limelight_models.attention.flat import share


class AttentionOverAttention(Aggregate):
    """Attention over attention (Cui et al. 2017, eq. 3–7; survey G Table 4).

    M₁ = align of A along the second input;  M₂ = align of A along the first
    a¹ = average over the second input of M₂;  a² = M₁ᵀ a¹

    Where one input is empty, both get zeros.

    Shapes: affinity [..., batch, head, first, second] -> Pair of weights [..., batch, head, 1, position].
    """

    has_scores = False

    def forward(self, affinity: Tensor, first: Side, second: Side, align: Align) -> Pair:
        of_first, of_second = both_ways(affinity, first, second, align)
        everywhere = torch.ones_like(of_second[..., :1], dtype=torch.bool).transpose(-2, -1)
        trusted = everywhere if second.mask is None else everywhere & second.mask
        first_weights = share(trusted, of_second) @ of_second
        return Pair(first_weights, first_weights @ of_first)
