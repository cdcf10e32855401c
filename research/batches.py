"""Instances in batches, a call each."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

_One = TypeVar("_One")


def batches(instances: Sequence[_One], most: int) -> Iterator[Sequence[_One]]:
    """Cut a sequence into parts of at most `most`."""
    return (instances[begin : begin + most] for begin in range(0, len(instances), most))
