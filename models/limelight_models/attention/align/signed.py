"""Alignments whose weights may subtract: compositional de-attention (C12) and tanh (for B18)."""

import torch
from torch import Tensor

from limelight_models.attention.alignment import Align, keep
from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError
from limelight_models.attention.score.similarity import NegativeDistance


class DeAttention(Align):
    """Compositional de-attention, CoDA (Tay et al. 2019, eq. 1–4; survey C §3).

    a_l = tanh(α e_l) · s sigmoid(-β ‖q - k_l‖₁): the first factor adds or subtracts, the second is a gate

    Over the scaled dot product the defaults are the survey's, tanh(qᵀk / √d) · sigmoid(-‖q - k‖₁ / √d): α = s = 1 and
    β = 1 / √d, d the size of a query. The sigmoid never sees a positive number and is at most ½. The paper names two
    remedies: scaling it, s = 2, and centring, where the distances are taken less their mean over the query's allowed
    keys.

    Shapes: scores [..., query, key], context.query [batch, head, query, d], context.key [batch, head, key, d]
        -> weights of the scores' shape, in [-1, 1].
    Raises: ShapeError where there is no query, or query and key differ in size.
    """

    normalised = False
    signed = True
    shift_invariant = False
    scale_hardens = False
    needs_query = True

    def __init__(
        self, *, alpha: float = 1.0, beta: float | None = None, scale: float = 1.0, centred: bool = False
    ) -> None:
        super().__init__()
        self.alpha, self.beta, self.scale, self.centred = alpha, beta, scale, centred
        self.negative_distance = NegativeDistance(p=1)

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        query, key = context.query, context.required("key", self)
        if query is None:
            raise ShapeError("DeAttention measures how far the query is from the keys; there is no query")
        self.negative_distance.check(query, key)
        nearness = self.negative_distance(query, key, context)
        if self.centred:
            allowed = torch.ones_like(nearness, dtype=torch.bool) if mask is None else mask.expand_as(nearness)
            count = allowed.sum(-1, keepdim=True).clamp(min=1)
            nearness = nearness - keep(nearness, allowed).sum(-1, keepdim=True) / count
        beta = query.shape[-1] ** -0.5 if self.beta is None else self.beta
        gate = self.scale * (beta * nearness).sigmoid()
        return keep(torch.tanh(self.alpha * scores) * gate, mask)


class Tanh(Align):
    """Element-wise tanh, the alignment of outer-product attention (Le et al. 2020, eq. 4; survey S §5.1).

    a = tanh(e)

    Shapes: scores [..., query, key] -> weights of the same shape, in (-1, 1).
    """

    normalised = False
    signed = True
    shift_invariant = False
    scale_hardens = False

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        return keep(torch.tanh(scores), mask)
