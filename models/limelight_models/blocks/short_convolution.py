"""Convolutions over a few tokens in front of a recurrence."""

from torch import Tensor, nn
from torch.nn.functional import pad, silu


class ShortConvolution(nn.Module):
    """silu(Σ_k w_k x_{t-K+1+k} + b), feature by feature, over a token and the K - 1 before it (Dao & Gu 2024, §7).

    Shapes: features [batch, token, d] -> the same.
    """

    def __init__(self, d: int, *, width: int = 4) -> None:
        super().__init__()
        self.width = width
        self.convolution = nn.Conv1d(d, d, width, groups=d)

    def forward(self, features: Tensor) -> Tensor:
        read: Tensor = self.convolution(pad(features.transpose(1, 2), (self.width - 1, 0)))
        return silu(read).transpose(1, 2)
