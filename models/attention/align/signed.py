"""Alignments whose weights may subtract: compositional de-attention (C12) and tanh (for B18)."""

import torch
from torch import Tensor

from models.attention.align.base import Align, keep
from models.attention.context import Context
from models.attention.errors import ShapeError
from models.attention.score.similarity import NegativeDistance


class DeAttention(Align):
    """Compositional de-attention, CoDA (Tay et al. 2019, eq. 1–4; survey C §3).

    a_l = tanh(α e_l) · 2 sigmoid(-β ‖q - k_l‖₁): the first factor adds or subtracts, the second is a gate

    The gate's 2 brings it to (0, 1], the paper's way to scale a sigmoid that never sees a positive number.

    Shapes: scores [..., query, key], context.query [batch, head, query, d], context.key [batch, head, key, d]
        -> weights of the scores' shape, in [-1, 1].
    Raises: ShapeError where there is no query, or query and key differ in size.
    """

    normalised = False
    signed = True
    shift_invariant = False
    scale_hardens = False
    needs_query = True

    def __init__(self, *, alpha: float = 1.0, beta: float = 1.0) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, beta
        self.negative_distance = NegativeDistance(p=1)

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        query, key = context.query, context.required("key", self)
        if query is None:
            raise ShapeError("DeAttention measures how far the query is from the keys; there is no query")
        self.negative_distance.check(query, key)
        gate = 2 * (self.beta * self.negative_distance(query, key, context)).sigmoid()
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
