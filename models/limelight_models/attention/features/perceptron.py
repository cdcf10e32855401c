"""Aggregation by a perceptron (G3, G7): over affinities, or over attentions nested in it."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import Align, keep
from limelight_models.attention.context import Context
from limelight_models.attention.features.aggregate import Aggregate, Side
from limelight_models.attention.linear import HeadLinear
from limelight_models.attention.score.pairwise import Activation


class Perceptron(Aggregate):
    """Positions judged by themselves and by what the affinity brings over (Lu et al. 2016, eq. 4–5; BF eq. 14–15).

    e¹ = w₁ᵀ act(W₁ K₁ + (W₂ K₂) Aᵀ);  e² = w₂ᵀ act(W₂ K₂ + (W₁ K₁) A)

    Shapes: affinity [..., batch, head, first, second] -> Pair of weights [..., batch, head, 1, position].
    """

    def __init__(self, *, d_first: int, d_second: int, d_w: int, heads: int = 1, act: Activation = torch.tanh) -> None:
        super().__init__()
        self.act = act
        self.first_map = HeadLinear(d_in=d_first, d_out=d_w, heads=heads)
        self.second_map = HeadLinear(d_in=d_second, d_out=d_w, heads=heads)
        self.first_importance = HeadLinear(d_in=d_w, d_out=1, heads=heads)
        self.second_importance = HeadLinear(d_in=d_w, d_out=1, heads=heads)

    def scores(self, affinity: Tensor, first: Side, second: Side, align: Align) -> tuple[Tensor, Tensor]:
        to_first, to_second = self.mixing(affinity, first, second, align)
        ours, theirs = self.first_map(first.features), self.second_map(second.features)
        first_scores = self.first_importance(self.act(ours + to_first @ theirs))
        second_scores = self.second_importance(self.act(theirs + to_second @ ours))
        return first_scores.squeeze(-1), second_scores.squeeze(-1)

    def mixing(self, affinity: Tensor, first: Side, second: Side, align: Align) -> tuple[Tensor, Tensor]:
        """Weights of the other input's positions: [..., first, second], [..., second, first]."""
        return keep(affinity, second.mask), keep(affinity.transpose(-2, -1), first.mask)


class NestedPerceptron(Perceptron):
    """Perceptron with nested attention: what comes over is weighted first (Nie et al. 2018; survey G Table 4).

    e¹ = w₁ᵀ act(W₁ K₁ + (W₂ K₂) M₁ᵀ);  e² = w₂ᵀ act(W₂ K₂ + (W₁ K₁) M₂)
    M₁ = align of A along the second input;  M₂ = align of A along the first

    Shapes: affinity [..., batch, head, first, second] -> Pair of weights [..., batch, head, 1, position].
    """

    def mixing(self, affinity: Tensor, first: Side, second: Side, align: Align) -> tuple[Tensor, Tensor]:
        return both_ways(affinity, first, second, align)


def both_ways(affinity: Tensor, first: Side, second: Side, align: Align) -> tuple[Tensor, Tensor]:
    """Each position's attention to the other input: M₁ [..., first, second] and M₂ᵀ [..., second, first]."""
    return (
        align(affinity, second.mask, inner(first, second)),
        align(affinity.transpose(-2, -1), first.mask, inner(second, first)),
    )


def inner(query: Side, key: Side) -> Context:
    """The context of an attention from one input to the other."""
    return Context(query=query.features, key=key.features, mask=key.mask)
