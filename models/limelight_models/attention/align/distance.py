"""Alignment by a supplied distance (C16): on a syntax tree, on a graph, anywhere."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import Align, both, normalise, softmax
from limelight_models.attention.context import Context


class DistanceAware(Align):
    """Local alignment over a given distance in place of positions (He et al. 2018, Chen et al. 2018b; survey G §4.3).

    a_l ∝ softmax_{d ≤ D}(e)_l · f(d_l), f(d) = exp(-d² / 2σ²), σ = D / 2 ("gaussian"), or 2^{-d} ("halving")

    A query with no allowed key within D gets zeros. Weights are divided by their sum unless `renormalise` is off.

    Shapes: scores [..., query, key], context.distances [batch, head, query, key], not negative
        -> weights of the scores' shape.
    Raises: MissingContextError without distances; ValueError for another decay.
    """

    sparse = True
    context_fields = ("distances",)

    def __init__(self, *, radius: float, decay: str = "gaussian", renormalise: bool = True) -> None:
        super().__init__()
        if decay not in ("gaussian", "halving"):
            raise ValueError(f'decay must be "gaussian" or "halving"; it is {decay!r}')
        self.radius, self.decay, self.normalised = radius, decay, renormalise

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        distances = context.required("distances", self)
        weights = softmax(scores, both(mask, distances <= self.radius)) * self.nearness(distances).to(scores.dtype)
        return normalise(weights) if self.normalised else weights

    def nearness(self, distances: Tensor) -> Tensor:
        """f(d)."""
        if self.decay == "halving":
            return torch.exp2(-distances)
        return torch.exp(-distances.square() / (2 * (self.radius / 2) ** 2))
