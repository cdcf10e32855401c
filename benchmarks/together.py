"""Instances that are sent in one call, so many at a time."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_One = TypeVar("_One")


def together(instances: Sequence[_One], most: int) -> Iterator[Sequence[_One]]:
    """Cut a sequence into parts of so many, the last one shorter."""
    return (instances[begin : begin + most] for begin in range(0, len(instances), most))
