"""Columns that are made when somebody first looks at a value of one."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class LazyColumn(Sequence[T]):
    """So many values, made together when one is first asked for, and kept.

    Whoever asks for a prediction alone looks at no label, and to make those was half of what preparing a text cost.
    size: how many `make` will make. Where two threads look first, either one's values are kept: they are the same.
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
            self._make = None  # what it was made of is let go of
        return self._values
