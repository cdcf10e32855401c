"""Parameters that may differ from head to head."""

import math

import torch
from torch import Tensor, nn


class HeadLinear(nn.Module):
    """An affine map whose weights belong to one head each, or are shared by all (`heads` = 1).

    y_h = x_h W_h + b_h

    Shapes: x [batch, head, position, d_in] -> y [batch, head, position, d_out].
    """

    def __init__(self, *, d_in: int, d_out: int, heads: int = 1, bias: bool = False) -> None:
        super().__init__()
        bound = 1 / math.sqrt(d_in)
        self.weight = nn.Parameter(torch.empty(heads, d_in, d_out).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(heads, 1, d_out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        return y if self.bias is None else y + self.bias
