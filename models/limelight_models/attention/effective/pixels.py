"""Softmax over pixels that are near, or in one row or column, with what is learned of distances between them.

What distances say is put into features: a query has what it says of each place, a key a one at its own, so that their
product is the term of the pair.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from limelight_models.attention.effective.blocks import Blocked, Blocks, Lists, around, of_blocks, of_remainders, there


class Window(Blocks):
    """A window of k × k pixels around each (Ramachandran et al. 2019, §3).

    y_ij = Σ_{ab ∈ N(ij)} softmax_ab(q_ijᵀ k_ab + q_ijᵀ r_{a-i, b-j}) v_ab,  r = [r_row; r_column]

    columns: of the picture, whose pixels stand row by row. reach: (k - 1) / 2. d: features of a head, an even number;
    none for scores without r. What is beyond the border is not attended to.

    Shapes: as `Effective`.
    """

    def __init__(self, *, columns: int, reach: int, heads: int = 1, d: int = 0) -> None:
        super().__init__()
        self.columns, self.reach = columns, reach
        sides = range(2 if d else 0)
        self.offsets = nn.ParameterList(torch.randn(heads, 2 * reach + 1, d // 2) * d**-0.5 for _ in sides)

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        place, step = (torch.arange(size, device=key.device) for size in (key.shape[2], 2 * self.reach + 1))
        row = (place // self.columns).reshape(-1, 1, 1) + step.unsqueeze(-1) - self.reach
        column = (place % self.columns).reshape(-1, 1, 1) + step - self.reach  # [pixel, 1, k]
        inside = (row >= 0) & (column >= 0) & (column < self.columns)
        read = torch.where(inside, row * self.columns + column, -1).flatten(1)
        return Lists(place[None, None, :, None], place[None, None], there(key, read)[None, None])

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Blocked:
        place, size = torch.arange(key.shape[2], device=key.device), 2 * self.reach + 1
        asked, kept = [query], [key]
        # A window has each remainder of rows and of columns by its size once.
        sides = zip(query.chunk(2, -1), self.offsets, (place // self.columns, place % self.columns), strict=False)
        for half, offsets, side in sides:
            asked.append(along(half, offsets, side, size))
            kept.append(marks(side, size, key))
        return super().prepare(unscaled(asked), torch.cat(kept, -1), mask)


class Line(Blocks):
    """The row of each pixel, or its column, with terms of places (Wang et al. 2020, eq. 4; without r^v).

    a_op = softmax_p(q_oᵀ k_p + q_oᵀ r^q_{p-o} + k_pᵀ r^k_{p-o})

    grid: rows and columns of the picture, whose pixels stand row by row. down: whether along columns. d: features of a
    head; none for scores without r. Heads share r.

    Shapes: as `Effective`.
    """

    def __init__(self, *, grid: tuple[int, int], down: bool, d: int = 0) -> None:
        super().__init__()
        (rows, self.columns), self.down = grid, down
        self.length = rows if down else self.columns
        sides = range(2 if d else 0)
        self.offsets = nn.ParameterList(torch.randn(2 * self.length - 1, d) * d**-0.5 for _ in sides)

    def lists(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Lists:
        if self.down:
            return of_remainders(key, self.columns)
        return of_blocks(key, self.columns, around(key, self.columns, 0, 0)[None, None])

    def prepare(self, query: Tensor, key: Tensor, mask: Tensor | None) -> Blocked:
        if not self.offsets:
            return super().prepare(unscaled([query]), key, mask)
        place, (of_query, of_key) = in_line(key, self.columns, down=self.down), self.offsets
        here = marks(place, self.length, key)
        says = along(key, of_key.flip(0), place, self.length)
        asked = [query, along(query, of_query, place, self.length), here]
        return super().prepare(unscaled(asked), torch.cat([key, here, says], -1), mask)


def in_line(sequence: Tensor, columns: int, *, down: bool) -> Tensor:
    """Where the pixels [batch, head, pixel, …] of a picture stand in their columns, or in their rows: INT64 [pixel]."""
    pixel = torch.arange(sequence.shape[2], device=sequence.device)
    return pixel // columns if down else pixel % columns


def apart(place: Tensor, size: int, count: int) -> Tensor:
    """Which of so many distances, the middle one being none, each of `size` places is away: INT64 [pixel, size]."""
    return (torch.arange(size, device=place.device) - place.unsqueeze(-1) + count // 2) % count


def along(features: Tensor, offsets: Tensor, place: Tensor, size: int) -> Tensor:
    """What pixels say of each of `size` places: f_iᵀ r_{p - place(i)}.

    Shapes: features [batch, head, pixel, d], offsets [(head,) distance, d], place INT64 [pixel] -> [batch, head, pixel,
        size].
    """
    said = features @ offsets.transpose(-2, -1)
    return said.gather(-1, apart(place, size, offsets.shape[-2]).expand(*said.shape[:2], -1, -1))


def marks(place: Tensor, size: int, like: Tensor) -> Tensor:
    """A one at the place of each pixel: [batch, head, pixel, size], as [batch, head, pixel, d] is."""
    here = (place.unsqueeze(-1) % size == torch.arange(size, device=place.device)).to(like.dtype)
    return here.expand(*like.shape[:2], -1, -1)


def unscaled(parts: Sequence[Tensor]) -> Tensor:
    """Features of queries side by side, whose products with keys are not to be divided by √d as those of `Blocks`."""
    joined = torch.cat([*parts], -1)
    return joined * joined.shape[-1] ** 0.5
