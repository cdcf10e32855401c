"""Images as sequences of patches."""

from torch import Tensor


def cut(pixels: Tensor, size: int) -> Tensor:
    """Cut into patches of `size` × `size`, row by row.

    Shapes: [batch, channel, row, column], both sizes multiples of `size` -> [batch, patch, channel × size²].
    """
    rows, columns = pixels.shape[2] // size, pixels.shape[3] // size
    parts = pixels.unflatten(3, (columns, size)).unflatten(2, (rows, size))
    # [batch, channel, rows, size, columns, size] -> [batch, rows, columns, channel, size, size]
    return parts.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
