"""What a row costs before it runs: the sizes of its varying axes, and what padding several rows to one size wastes.

A shape has one tuple for each set of varying axes that a model's tensors have: `((28,),)` for a text of 28 tokens,
`((12, 30),)` for a document of 12 sentences of up to 30 words, `((20,), (31,))` for two texts. An image of fixed size
is `((),)`: one place.
"""

from collections.abc import Callable, Iterable, Mapping
from math import prod

from limelight.v1 import model_pb2

Shape = tuple[tuple[int, ...], ...]


def places(shape: Shape) -> int:
    """Count the places (tokens) that a row of this shape has in a batch."""
    return sum(map(prod, shape))


def union(first: Shape, second: Shape) -> Shape:
    """Give the smallest shape that holds both: what a batch of both is padded to."""
    if first == second:
        return first
    return tuple(tuple(map(max, a, b)) for a, b in zip(first, second, strict=True))


def shape_of(tensors: Iterable[model_pb2.TensorDescription]) -> Callable[[Mapping[str, int]], Shape]:
    """Make the function from a row's sizes by axis name to its shape. Tensors of the same varying axes count once."""
    axes = dict.fromkeys(
        tuple(dimension.name for dimension in tensor.dimensions if not dimension.size) for tensor in tensors
    )
    varying = tuple(names for names in axes if names) or ((),)

    def shape(sizes: Mapping[str, int]) -> Shape:
        return tuple(tuple(sizes.get(name, 0) for name in names) for names in varying)

    return shape
