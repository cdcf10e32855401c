"""Alignments with a bound on every weight (C13), for what coverage leaves over."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import Align, fill, keep
from limelight_models.attention.context import Context

PARTS, DIVISIONS = 16, 6  # enough for a million keys
LARGEST_EXPONENT = 700.0  # of a float64, in round numbers


def constrained_softmax(scores: Tensor, bounds: Tensor) -> Tensor:
    """The distribution nearest to softmax(scores), in relative entropy, with no weight above its bound.

    a_l = u_l for the keys that saturate, the rest shares what is left as softmax would: a_l = min(u_l, r exp(e_l)).
    Keys saturate in the order of exp(e_l) / u_l. Only differences of scores are exponentiated: where the best keys are
    bounded, others share what is left however far below they are.
    """
    with torch.no_grad():
        order = (scores - bounds.log()).sort(-1, descending=True).indices
        count = saturated(scores, bounds, order)
    scores_in_order, bounds_in_order = scores.gather(-1, order), bounds.gather(-1, order)
    free = torch.arange(scores.shape[-1], device=scores.device) >= count
    left = 1 - bounds_in_order.masked_fill(free, 0).sum(-1, keepdim=True)
    odds = fill(scores_in_order, free)
    best = odds.amax(-1, keepdim=True).detach()
    # A row in which all keys saturate has no odds; its rate is not used.
    rate = left.clamp(min=0) / keep((odds - best).exp(), free).sum(-1, keepdim=True).clamp(min=1)
    # A key that saturates may be far better than any that is free: exp() must not overflow for it.
    shared = torch.minimum(bounds, rate * (scores - best).clamp(max=LARGEST_EXPONENT).exp())
    return torch.where(free.any(-1, keepdim=True), shared, bounds)


def saturated(scores: Tensor, bounds: Tensor, order: Tensor) -> Tensor:
    """Number of keys within their bounds [..., 1], the first ones in the order of exp(e_l) / u_l.

    At the rate r at which the i-th saturates, Σ_l min(u_l, r exp(e_l)) grows with i. It is found by asking at fifteen
    places at once which of the sixteen parts between them it is in: few steps, since each is a node of a graph.
    """
    levels = (scores - bounds.log()).gather(-1, order)
    parts = torch.arange(1, PARTS, device=scores.device)
    low = torch.zeros_like(order[..., :1])
    width = torch.full_like(low, scores.shape[-1])
    for _ in range(DIVISIONS):
        places = low + torch.div(width * parts, PARTS, rounding_mode="floor")
        level = levels.gather(-1, places.clamp(max=scores.shape[-1] - 1))
        total = torch.minimum(bounds.unsqueeze(-1), (scores.unsqueeze(-1) - level.unsqueeze(-2)).exp()).sum(-2)
        within = (total <= 1) & (width > 0)
        # The first place that is too much is the new end, what follows the last that is not the new beginning.
        begin = torch.where(within, places + 1, low).amax(-1, keepdim=True)
        end = torch.where(within, low + width, places).amin(-1, keepdim=True)
        low, width = begin, (end - begin).clamp(min=0)
    return low


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
    """Base of both constrained alignments: bounds from the context, none for keys that are masked."""

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
