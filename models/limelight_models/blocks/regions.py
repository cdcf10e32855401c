"""Pictures as regions that know what is around them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from limelight_models.blocks.cells import Cells, OverTheCell, convolution
from limelight_models.blocks.transformer import BERT_EPSILON


class Around(nn.Module):
    """x + convolution(x): what is in a cell, and how its neighbours are.

    Shapes: [batch, d, row, column] -> the same.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.neighbours = convolution(d, d, size=3, norm=OverTheCell)

    def forward(self, cells: Tensor) -> Tensor:
        added: Tensor = cells + self.neighbours(cells)
        return added


class Regions(nn.Module):
    """The cells of a picture, row by row, as features of one size.

    around: how many cells further each sees than its own surroundings. Networks like VGG-19 see far from every region.

    Shapes: pixels [batch, channel, row, column] -> [batch, region, d].
    """

    def __init__(
        self,
        *,
        channels: Sequence[int],
        strides: Sequence[int],
        rows: int,
        columns: int,
        d: int,
        around: int = 0,
    ) -> None:
        super().__init__()
        self.cells = Cells(channels=channels, strides=strides, rows=rows, columns=columns)
        self.project = nn.Linear(self.cells.d_out, d)
        self.around = nn.Sequential(*(Around(d) for _ in range(around)))

    def forward(self, pixels: Tensor) -> Tensor:
        cells = self.project(self.cells(pixels)).transpose(1, 2).unflatten(2, self.cells.grid)
        regions: Tensor = self.around(cells)
        return regions.flatten(2).transpose(1, 2)


class PlacedRegions(nn.Module):
    """Regions with where they are: v_j = (norm(W_F f_j + b_F) + norm(W_P p_j + b_P)) / 2 (Tan & Bansal 2019, §2.1).

    p_j: the left, upper, right and lower edge of region j, from 0 to 1.

    Shapes: features [batch, region, d] -> [batch, region, d].
    """

    boxes: Tensor

    def __init__(self, d: int, grid: tuple[int, int]) -> None:
        super().__init__()
        self.feature, self.box = nn.Linear(d, d), nn.Linear(4, d)
        self.feature_norm, self.box_norm = nn.LayerNorm(d, BERT_EPSILON), nn.LayerNorm(d, BERT_EPSILON)
        down, across = (torch.arange(count) / count for count in grid)
        corners = torch.stack([across.expand(*grid), down.unsqueeze(1).expand(*grid)], -1).flatten(0, 1)
        size = torch.tensor([1 / grid[1], 1 / grid[0]])
        self.register_buffer("boxes", torch.cat([corners, corners + size], -1), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        placed: Tensor = self.feature_norm(self.feature(features)) + self.box_norm(self.box(self.boxes))
        return placed / 2
