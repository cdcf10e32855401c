"""Multi-grained co-attention (G5): coarse and fine together."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from limelight_models.attention.features.interactive import Interactive
from limelight_models.attention.features.pair import FineWeights, Pair
from limelight_models.attention.features.parallel import Parallel
from limelight_models.attention.flat import Contexts
from limelight_models.attention.weights import Weights, weights_of


class MultiGrainedWeights(NamedTuple):
    """The weights of the two co-attentions."""

    coarse: Pair
    fine: FineWeights


class MultiGrained(nn.Module):
    """Coarse and fine co-attention side by side (Fan et al. 2018, §3.3–3.5; survey BF §3.1.1).

    c = [c¹_coarse; c²_coarse; c¹_fine; c²_fine]

    Shapes: first [batch, first, d_1], second [batch, second, d_2], masks [batch, position]
        -> context vector [batch, sum of the four sizes], MultiGrainedWeights.
    """

    def __init__(self, *, coarse: Interactive, fine: Parallel) -> None:
        super().__init__()
        self.coarse, self.fine = coarse, fine

    @property
    def makes(self) -> tuple[Weights, ...]:
        """The coarse ones, then the fine ones."""
        return weights_of(self.coarse, self.fine)

    def forward(
        self,
        first: Tensor,
        second: Tensor,
        first_mask: Tensor | None = None,
        second_mask: Tensor | None = None,
        contexts: Mapping[str, Contexts] | None = None,
    ) -> tuple[Tensor, MultiGrainedWeights]:
        of = contexts or {}
        coarse, coarse_weights = self.coarse(first, second, first_mask, second_mask, of.get("coarse"))
        fine, fine_weights = self.fine(first, second, first_mask, second_mask, of.get("fine"))
        return torch.cat([*coarse, *fine], -1), MultiGrainedWeights(coarse_weights, fine_weights)
