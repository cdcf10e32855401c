"""Pictures as regions that know what is around them."""

from collections.abc import Sequence

from torch import Tensor, nn

from models.blocks.cells import Cells, OverTheCell, convolution


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
