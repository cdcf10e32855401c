"""Base classes of answers: comparable, copyable, picklable, and no arrays unless they say so."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Key = TypeVar("Key")
Item = TypeVar("Item")


class FrozenMapping(dict[Key, Item]):
    """A read-only mapping. Unlike `MappingProxyType` it can be pickled and copied."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("an answer is read-only; dict(...) makes a mutable copy")

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = __ior__ = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


class Record:
    """A frozen dataclass with array fields: equal if all fields are equal, with NaN equal to NaN."""

    _array: str = ""
    """Field to pass to `numpy.asarray` instead, for the error."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        if self is other:
            return True
        return all(
            _same(getattr(self, each.name), getattr(other, each.name))
            for each in fields(self)  # type: ignore[arg-type]
        )

    def __hash__(self) -> int:
        # A cheap hash: equality compares the values.
        values = (getattr(self, each.name) for each in fields(self))  # type: ignore[arg-type]
        return hash((type(self), *(each for each in values if isinstance(each, str | int | None))))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if dtype is not None and np.dtype(dtype) == object:  # np.array(list of answers, object)
            alone = np.empty((), object)
            alone[()] = self
            return alone
        raise TypeError(f"{type(self).__name__} is not an array; {self._array or 'its fields are'}")


def as_array(values: NDArray[Any], dtype: DTypeLike | None, copy: bool | None) -> NDArray[Any]:
    """Implement `__array__`: copy only on request, or for another type.

    Raises:
        ValueError: a copy is needed and not allowed.
    """
    if dtype is None or np.dtype(dtype) == values.dtype:
        return values.copy() if copy else values
    if copy is False:
        raise ValueError(f"{values.dtype} to {np.dtype(dtype)} needs a copy")
    return values.astype(dtype)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return list(one) == list(other) and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)
