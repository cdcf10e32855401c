"""What a row costs before it runs: the sizes of its varying axes, and what several rows take together.

Tensors that are stacked are padded to one size, which wastes places; those that are joined (graphs, which become one
graph of several parts) waste none.
"""

from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import NamedTuple

from bundle.rows import BoundTensor, joined_dimensions


class Shape(NamedTuple):
    """The shape of a row, or what a batch of rows is padded and joined to.

    padded: a tuple of sizes for each set of varying axes that stacked tensors have: `((28,),)` for a text of 28 tokens,
    `((12, 30),)` for a document of 12 sentences of up to 30 words, `((20,), (31,))` for two texts. An image of fixed
    size is `((),)`: one place.
    joined: entries along the axes that are joined, over all rows: the nodes and edges of a graph.
    """

    padded: tuple[tuple[int, ...], ...] = ()
    joined: int = 0


def places(shape: Shape, rows: int = 1) -> int:
    """Count the places (tokens, nodes, edges) of so many rows that are padded and joined to this shape."""
    return rows * sum(map(prod, shape.padded)) + shape.joined


def union(first: Shape, second: Shape) -> Shape:
    """Give what a batch of both is padded and joined to."""
    joined = first.joined + second.joined
    if first.padded == second.padded:
        return Shape(first.padded, joined)
    return Shape(tuple(tuple(map(max, a, b)) for a, b in zip(first.padded, second.padded, strict=True)), joined)


def shape_of(tensors: Collection[BoundTensor]) -> Callable[[Mapping[str, int]], Shape]:
    """Make the function from a row's sizes by axis name to its shape. Tensors of the same varying axes count once."""
    axes = dict.fromkeys(
        tuple(dimension.name for dimension in each.description.dimensions if not dimension.size)
        for each in tensors
        if not each.joined
    )
    joined = tuple(joined_dimensions(tensors))
    varying = tuple(names for names in axes if names) or (() if joined else ((),))

    def shape(sizes: Mapping[str, int]) -> Shape:
        padded = tuple(tuple(sizes.get(name, 0) for name in names) for names in varying)
        return Shape(padded, sum(sizes.get(name, 0) for name in joined))

    return shape
