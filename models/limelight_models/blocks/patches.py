"""Images as sequences of patches."""

import torch
from torch import Tensor

from limelight_models.blocks.transformer import places


def cut(pixels: Tensor, size: int) -> Tensor:
    """Cut into patches of `size` × `size`, row by row.

    Shapes: [batch, channel, row, column], both sizes multiples of `size` -> [batch, patch, channel × size²].
    """
    rows, columns = pixels.shape[2] // size, pixels.shape[3] // size
    parts = pixels.unflatten(3, (columns, size)).unflatten(2, (rows, size))
    # [batch, channel, rows, size, columns, size] -> [batch, rows, columns, channel, size, size]
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def grid_places(grid: tuple[int, int], like: Tensor) -> Tensor:
    """Sines and cosines of each cell's row (Vaswani et al. 2017, §3.5), and beside them those of its column.

    Shapes: rows and columns, [..., cell, d], d a multiple of 4 -> [cell, d], row by row, in the dtype of `like`.
    """
    rows, columns = grid
    half = like[..., : like.shape[-1] // 2]
    down, across = (places(torch.arange(size, device=like.device), half) for size in grid)
    both = [down.unsqueeze(1).expand(-1, columns, -1), across.expand(rows, -1, -1)]
    return torch.cat(both, -1).flatten(0, 1)
