"""Adaptive span (C14): each head learns how far it looks."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import Align, both, keep, normalise, softmax
from limelight_models.attention.context import Context
from limelight_models.attention.signals.span import span_penalty


class AdaptiveSpan(Align):
    """Softmax under a soft window whose width each head learns (Sukhbaatar et al. 2019, eq. 3–4; survey S §5.1).

    m_z(x) = clamp((R + z - x) / R, 0, 1);  a_l = m_z(x_l) exp(e_l) / Σ_j m_z(x_j) exp(e_j), x the distance in positions

    A query with no allowed key within z + R gets zeros.

    Shapes: scores [..., head, query, key], positions from the context (default 0, 1, …) -> weights of the same shape.
    """

    sparse = True
    key_order = True
    context_fields = ("query_positions", "key_positions")

    def __init__(self, *, max_span: int, ramp: int, heads: int = 1, start: float = 0.5) -> None:
        super().__init__()
        self.max_span, self.ramp = max_span, ramp
        self.share = nn.Parameter(torch.full((heads, 1, 1), start))  # z as a share of max_span

    @property
    def span(self) -> Tensor:
        """z of each head [head, 1, 1]; `signals.span_penalty` keeps it short.

        A step beyond either end leaves the gradient as it is there, so that the next ones can lead back.
        """
        return self.max_span * (self.share + (self.share.clamp(0, 1) - self.share).detach())

    def signals(self, scores: Tensor, mask: Tensor | None, context: Context) -> Mapping[str, Tensor]:
        return {"span": span_penalty(self.span)}

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        query_positions, key_positions = context.positions(scores)
        distance = (query_positions - key_positions).abs()
        soft_mask = ((self.ramp + self.span - distance) / self.ramp).clamp(0, 1)
        # Only keys in reach take part in the softmax: a large score out of reach must not take all the weight.
        reach = both(mask, soft_mask > 0)
        return keep(normalise(softmax(scores, reach) * soft_mask.to(scores.dtype)), reach)
