"""Selective attention by a grid of Gaussian filters (C10): DRAW's reading patch."""

import torch
from torch import Tensor, nn

from limelight_models.attention.alignment import Align, in_single, softmax
from limelight_models.attention.context import Context
from limelight_models.attention.errors import ShapeError, require_features


class GaussianGrid(Align):
    """A patch of the keys, seen through N (or N × N) Gaussian filters (Gregor et al. 2015, eq. 19–26; survey G §3.3).

    (g̃, log σ², log δ̃) = W q + b;  g = (A + 1) / 2 · (g̃ + 1) - 1;  δ = (A - 1) / (N - 1) · δ̃
    μ_i = g + (i - N/2 + 1/2) δ, i = 0 … N - 1;  a_{i,l} ∝ exp(-(l - μ_i)² / 2σ²)

    A is the number of keys that the query may attend to. With `columns`, keys are the cells of an image, row by row,
    and there is a filter for each of N × N points. The scores are not read: the query alone says where, how large and
    how sharp the patch is. The intensity γ multiplies what is read, not where, and is left to the caller.

    Shapes: scores [batch, head, query, key], context.query [batch, head, query, d_q]
        -> weights [batch, head, query · filters, key], the filters of one query next to each other.
    Raises: ShapeError where there is no query or d_q differs.
    """

    uses_scores = False
    makes_queries = True
    needs_query = True
    key_order = True
    scale_hardens = False

    def __init__(self, *, d_q: int, filters: int, columns: int | None = None) -> None:
        super().__init__()
        self.d_q, self.filters, self.columns = d_q, filters, columns
        self.rows = filters if columns is None else filters**2
        self.parameters_of = nn.Linear(d_q, 3 if columns is None else 4)

    def forward(self, scores: Tensor, mask: Tensor | None, context: Context) -> Tensor:
        query = context.query
        if query is None:
            raise ShapeError("GaussianGrid takes its patch from the query; there is none")
        require_features(query, "query", self.d_q, self)
        *centres, log_variance, log_stride = in_single(self.parameters_of(query)).unsqueeze(-1).unbind(-2)
        allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
        count = allowed.sum(-1, keepdim=True).to(log_variance.dtype)
        position = torch.arange(scores.shape[-1], device=scores.device)
        columns = self.columns
        if columns is None:
            squared = [self.off_centre(position, centres[0], log_stride, count, count)]
        else:
            rows = count / columns
            longest = rows.clamp(min=columns)
            across = self.off_centre(
                position % columns, centres[0], log_stride, torch.full_like(rows, columns), longest
            )
            down = self.off_centre(
                torch.div(position, columns, rounding_mode="floor"), centres[1], log_stride, rows, longest
            )
            squared = [across.unsqueeze(-3), down.unsqueeze(-2)]  # [..., down, across, key]
        energy = -sum(squared) / (2 * log_variance.exp()).reshape(*query.shape[:3], *[1] * (squared[0].dim() - 3))
        filters = energy.flatten(3, -2)
        weights = softmax(filters, allowed.unsqueeze(-2))
        return weights.flatten(2, 3).to(scores.dtype)

    def off_centre(self, position: Tensor, centre: Tensor, log_stride: Tensor, size: Tensor, longest: Tensor) -> Tensor:
        """(l - μ_i)² along one axis of the patch [batch, head, query, filter, key]."""
        middle = (size + 1) / 2 * (centre + 1) - 1
        stride = (longest - 1).clamp(min=0) / max(self.filters - 1, 1) * log_stride.exp()
        steps = torch.arange(self.filters, device=position.device) - self.filters / 2 + 0.5
        return (position - (middle + steps * stride).unsqueeze(-1)).square()
