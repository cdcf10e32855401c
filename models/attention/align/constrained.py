"""Alignments with a bound on every weight (C13), for what coverage leaves over."""

import torch
from torch import Tensor

from models.attention.align.base import Align, fill, keep
from models.attention.context import Context


def constrained_softmax(scores: Tensor, bounds: Tensor) -> Tensor:
    """The distribution nearest to softmax(scores), in relative entropy, with no weight above its bound.

    a_l = u_l for the keys that saturate, the rest shares what is left as softmax would: a_l = min(u_l, r exp(e_l)).
    Keys saturate in the order of exp(e_l) / u_l, so one sort finds how many do.
    """
    odds = (scores - scores.amax(-1, keepdim=True)).exp()
    order = (scores - bounds.log()).sort(-1, descending=True).indices
    odds_in_order, bounds_in_order = odds.gather(-1, order), bounds.gather(-1, order)
    # If the n first saturate, the others share 1 - (their bounds) in proportion to their odds.
    left = (1 - (bounds_in_order.cumsum(-1) - bounds_in_order)).clamp(min=0)
    shared = odds_in_order.flip(-1).cumsum(-1).flip(-1)
    rate = left / torch.where(shared > 0, shared, torch.ones_like(shared))
    fits = (odds_in_order * rate <= bounds_in_order) & (bounds_in_order > 0)
    saturated = (fits.int().cumsum(-1) == 0).sum(-1, keepdim=True)
    all_do = saturated == odds.shape[-1]
    final = rate.gather(-1, saturated.clamp(max=odds.shape[-1] - 1))
    return torch.where(all_do, bounds, torch.minimum(bounds, odds * final))


def constrained_sparsemax(scores: Tensor, bounds: Tensor) -> Tensor:
    """The Euclidean projection of the scores on the simplex with no weight above its bound.

    a_l = min(u_l, max(0, e_l - τ)). The sum is piecewise linear in τ with corners at e_l and e_l - u_l: sorted, one
    pass of sums finds the piece on which it is 1 (Malaviya et al. 2018, §3).
    """
    scores = scores - scores.amax(-1, keepdim=True)
    corners, order = torch.cat([scores, scores - bounds], -1).sort(-1, descending=True)
    turns = torch.cat([torch.ones_like(scores), -torch.ones_like(scores)], -1).gather(-1, order)
    slope = turns.cumsum(-1)  # how many keys grow as τ falls past a corner
    drop = corners[..., :-1] - corners[..., 1:]
    total = torch.cat([torch.zeros_like(corners[..., :1]), (slope[..., :-1] * drop).cumsum(-1)], -1)
    piece = ((total < 1).sum(-1, keepdim=True) - 1).clamp(min=0)  # the last corner with a sum below 1
    step = (1 - total.gather(-1, piece)) / slope.gather(-1, piece).clamp(min=1)
    threshold = corners.gather(-1, piece) - step
    # Where the bounds sum to less than 1, every key takes all it may.
    enough = bounds.sum(-1, keepdim=True) >= 1
    return torch.where(enough, torch.minimum(bounds, (scores - threshold).clamp(min=0)), bounds)


class Constrained(Align):
    """What both constrained alignments share: bounds from the context, none for keys that are masked."""

    shift_invariant = True
    scale_hardens = False
    context_fields = ("upper_bounds",)

    def bounded(self, scores: Tensor, mask: Tensor | None, context: Context) -> tuple[Tensor, Tensor]:
        """Scores and bounds of the same shape, in float64: where the best keys are bounded, far worse ones count."""
        bounds = keep(context.required("upper_bounds", self).double().clamp(min=0, max=1), mask)
        # Filled before the cast: an exported graph holds a float64 minimum as float32, which makes it -∞.
        scores, bounds = torch.broadcast_tensors(fill(scores, mask).double(), bounds)
        return scores, bounds


class ConstrainedSoftmax(Constrained):
    """Constrained softmax (Martins & Kreutzer 2017, eq. 4; survey G §4.3).

    a = argmin_p KL(p ‖ softmax(e)) over the simplex with p ≤ u

    Bounds that sum to less than 1 cannot be met: then a = u, and the weights sum to less.

    Shapes: scores [..., query, key], context.upper_bounds [batch, head, query, key] -> weights of the scores' shape.
    Raises: MissingContextError without upper bounds.
    """

    normalised = False

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return constrained_softmax(*self.bounded(scores, mask, context)).to(scores.dtype)


class ConstrainedSparsemax(Constrained):
    """Constrained sparsemax (Malaviya et al. 2018, eq. 4; survey G §4.3).

    a = argmin_p ‖p - e‖² over the simplex with p ≤ u

    Bounds that sum to less than 1 cannot be met: then a = u, and the weights sum to less.

    Shapes: scores [..., query, key], context.upper_bounds [batch, head, query, key] -> weights of the scores' shape.
    Raises: MissingContextError without upper bounds.
    """

    normalised = False
    sparse = True

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        rows, bounds = self.bounded(scores, mask, context)
        return constrained_sparsemax(rows, bounds).to(scores.dtype)
