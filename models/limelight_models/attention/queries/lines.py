"""Heads of which each pixel attends to its row, or to its column."""

from functools import partial

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.pixels import Line, apart, in_line, marks
from limelight_models.attention.queries.multi_head import MultiHead


class LineHeads(MultiHead):
    """Heads along a line, whose values say how far they are: Σ_p a_op (v_p + r^v_{p-o}) (Wang et al. 2020, eq. 4).

    placed: whether there is r^v. Its sum is that of the weights at each place of the line, which values ask for by
    features of their own.

    Shapes: as `MultiHead` of features that attend to themselves.
    """

    def __init__(self, attention: Line, *, d_model: int, heads: int, placed: bool) -> None:
        super().__init__(attention=attention, d_model=d_model, heads=heads)
        d, self.length = d_model // heads, attention.length
        self.place = partial(in_line, columns=attention.columns, down=attention.down)
        self.offsets = nn.Parameter(torch.randn(2 * self.length - 1, d) * d**-0.5) if placed else None

    def project(self, query: Tensor, key: Tensor, value: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project(query, key, value)
        if self.offsets is None:
            return q, k, v
        return q, k, torch.cat([v, marks(self.place(v), self.length, v)], -1)

    def output(self, context_vectors: Tensor, query: Tensor) -> Tensor:
        if self.offsets is None:
            return self.join(context_vectors)
        count, d = self.offsets.shape
        found, shares = context_vectors.split([d, self.length], -1)
        far = self.offsets[apart(self.place(found), self.length, count)]  # [pixel, place, d]
        return self.join(found + (shares.unsqueeze(-2) @ far).squeeze(-2))
