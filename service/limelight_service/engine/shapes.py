"""The shape of a row, which tells its cost before it runs, and the shape of several rows together.

Tensors that are stacked are padded to one size, which wastes places, unless the graph packs them: then padding is
computed by attention alone. Those that are joined (graphs, which become one graph of several parts) waste none.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod
from typing import NamedTuple

from limelight_bundle.rows import BoundTensor, joined_dimensions

_MOST_SHAPES = 1024  # that are kept of a model


class Shape(NamedTuple):
    """The shape of a row, or the one that a batch of rows is padded and joined to.

    padded: a tuple of sizes for each set of varying axes that stacked tensors have: `((28,),)` for a text of 28 tokens,
    `((12, 30),)` for a document of 12 sentences of up to 30 words, `((20,), (31,))` for two texts. An image of fixed
    size is `((),)`: one place.
    joined: entries along the axes that are joined, over all rows: the nodes and edges of a graph.
    packed: as `padded`, for tensors that the graph packs. real: places that they hold, over all rows.
    """

    padded: tuple[tuple[int, ...], ...] = ()
    joined: int = 0
    packed: tuple[tuple[int, ...], ...] = ()
    real: int = 0


def places(shape: Shape, rows: int = 1) -> int:
    """Count the places (tokens, nodes, edges) that so many rows, padded, packed and joined to this shape, cost."""
    return rows * sum(map(prod, shape.padded)) + shape.joined + shape.real


def extent(shape: Shape, rows: int = 1) -> int:
    """Count the places as they are laid out, so as if nothing were packed."""
    return rows * (sum(map(prod, shape.padded)) + sum(map(prod, shape.packed))) + shape.joined


def union(first: Shape, second: Shape) -> Shape:
    """Give the shape that a batch of both is padded and joined to."""
    return Shape(
        _largest(first.padded, second.padded),
        first.joined + second.joined,
        _largest(first.packed, second.packed),
        first.real + second.real,
    )


def shape_of(tensors: Collection[BoundTensor], masks: Collection[str] = ()) -> Callable[[Mapping[str, int]], Shape]:
    """Make the function from a row's sizes by axis name to its shape. Tensors of the same varying axes count once.

    masks: those by which the graph packs tokens.
    """
    stacked = [each for each in tensors if not each.joined]
    joined = tuple(joined_dimensions(tensors))
    packed = tuple(dict.fromkeys(_varying(each) for each in stacked if each.mask in masks and _varying(each)))
    axes = dict.fromkeys(_varying(each) for each in stacked)
    padded = tuple(names for names in axes if names and names not in packed) or (() if joined or packed else ((),))

    known: dict[tuple[tuple[str, int], ...], Shape] = {}

    def shape(sizes: Mapping[str, int]) -> Shape:
        key = tuple(sizes.items())
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST_SHAPES:
                known.clear()
            of_packed = _sizes(sizes, packed)
            total = sum(sizes.get(name, 0) for name in joined)
            found = known[key] = Shape(_sizes(sizes, padded), total, of_packed, sum(map(prod, of_packed)))
        return found

    return shape


def _varying(tensor: BoundTensor) -> tuple[str, ...]:
    return tuple(dimension.name for dimension in tensor.description.dimensions if not dimension.size)


def _sizes(sizes: Mapping[str, int], axes: Sequence[tuple[str, ...]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sizes.get(name, 0) for name in names) for names in axes)


def _largest(first: tuple[tuple[int, ...], ...], second: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    if first == second:
        return first
    return tuple(tuple(map(max, a, b)) for a, b in zip(first, second, strict=True))
