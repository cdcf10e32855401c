"""Convolutional encoders: a picture as a grid of features, each of which sees a part of it."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Norm = Callable[[int], nn.Module]  # of so many features
_FLAT = 1e-3  # a picture whose pixels differ by less than its root is flat


def over_the_picture(features: int) -> nn.Module:
    """Normalise each feature over its own picture (Ulyanov et al. 2016).

    Over a batch (`nn.BatchNorm2d`) learning would see in the statistics how long a text is to be that is written about
    a picture: texts of one length come together.
    """
    return nn.GroupNorm(features, features)


class OverTheCell(nn.Module):
    """Normalise each cell over its own features (Ba et al. 2016), so that it tells of nothing that it does not see.

    Over the picture, every cell tells of all the others, and what is in one can be read from any of them.

    Shapes: [batch, feature, row, column] -> the same.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, cells: Tensor) -> Tensor:
        normed: Tensor = self.norm(cells.movedim(1, -1))
        return normed.movedim(-1, 1)


def convolution(d_in: int, d_out: int, *, size: int, stride: int = 1, norm: Norm) -> nn.Sequential:
    """A convolution that keeps the picture's size, or divides it by `stride`; normalisation; relu."""
    return nn.Sequential(nn.Conv2d(d_in, d_out, size, stride, size // 2, bias=False), norm(d_out), nn.ReLU())


def contrast(pixels: Tensor) -> Tensor:
    """Distance of each pixel from the picture's mean, in units of the root mean square, lighter or darker.

    Ink stands out from the ground the same, dark on light and light on dark.

    Shapes: [batch, channel, row, column] -> the same.
    """
    away = (pixels - pixels.mean((2, 3), keepdim=True)).abs()
    return away / (away.square().mean((2, 3), keepdim=True) + _FLAT).sqrt()


class Cells(nn.Module):
    """Features of the cells of a picture, by its contrast, and where each cell is.

    Convolutions of 5 × 5 with these strides, then one of 3 × 3. With strides 2 and 3 a cell is 6 × 6 pixels and sees
    25 × 25: a digit of the canvas, and little beside it. So it says nothing of where it is, which deeper encoders learn
    from the border that they all see: its column and row, from -1 to 1, are added.

    Shapes: pixels [batch, channel, row, column] -> [batch, cell, d_out], row by row, d_out = channels[-1] + 2.
    """

    places: Tensor

    def __init__(
        self,
        *,
        channels: Sequence[int],
        strides: Sequence[int],
        rows: int,
        columns: int,
        d_in: int = 1,
        norm: Norm = OverTheCell,
    ) -> None:
        super().__init__()
        *sizes, last = channels
        steps = zip((d_in, *sizes[:-1]), sizes, strides, strict=True)
        layers = [convolution(before, after, size=5, stride=stride, norm=norm) for before, after, stride in steps]
        self.layers = nn.Sequential(*layers, convolution(sizes[-1], last, size=3, norm=norm))
        self.grid = rows // math.prod(strides), columns // math.prod(strides)
        self.d_out = last + 2
        down, across = (torch.linspace(-1, 1, count, dtype=torch.float64) for count in self.grid)
        places = torch.stack([across.expand(*self.grid), down.unsqueeze(1).expand(*self.grid)], -1)
        self.register_buffer("places", places.flatten(0, 1), persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        features = self.layers(contrast(pixels)).flatten(2).transpose(1, 2)
        return torch.cat([features, self.places.to(features.dtype).expand(features.shape[0], -1, -1)], -1)
