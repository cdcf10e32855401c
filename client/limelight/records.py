"""Base classes of answers: comparable, copyable, picklable, and no arrays unless they say so."""

import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
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

    def __repr__(self) -> str:
        return SHORT.repr(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON types: dictionaries, lists, strings, numbers. `--json` prints the same."""
        return {each.name: json_types(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        if dtype is not None and np.dtype(dtype) == object:  # np.array(list of answers, object)
            alone = np.empty((), object)
            alone[()] = self
            return alone
        raise TypeError(f"{type(self).__name__} is not an array; {self._array or 'its fields are'}")


class _Short(reprlib.Repr):
    """Representations of bounded length: arrays by type and shape, the first few entries, no empty fields."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxtuple, self.maxlist, self.maxdict = 3, 4, 4, 6
        self.maxstring = self.maxother = 60

    def repr_ndarray(self, array: NDArray[Any], _: int) -> str:
        return f"{array.dtype}{list(array.shape)}"

    def repr_FrozenMapping(self, mapping: Mapping[Any, Any], level: int) -> str:
        items = list(mapping.items())[: self.maxdict]
        shown = [f"{self.repr1(key, level - 1)}: {self.repr1(value, level - 1)}" for key, value in items]
        more = ["…"] if len(mapping) > len(items) else []
        return f"{{{', '.join(shown + more)}}}"

    def repr_instance(self, value: object, level: int) -> str:
        if not isinstance(value, Record):
            return super().repr_instance(value, level)
        if type(value).__repr__ is not Record.__repr__ and level < self.maxlevel:
            return repr(value)
        there = [] if level <= 0 else [each for each in fields(value) if not _is_empty(value, each)]  # type: ignore[arg-type]
        shown = [f"{each.name}={self.repr1(getattr(value, each.name), level - 1)}" for each in there]
        return f"{type(value).__name__}({', '.join(shown) if level > 0 else '…'})"


SHORT = _Short()


def _is_empty(record: Record, of: "Field[Any]") -> bool:
    """Return whether a field has nothing to tell: its default, None, or no entries."""
    value = getattr(record, of.name)
    if isinstance(value, str | tuple | Mapping | np.ndarray):
        return not np.size(value) if isinstance(value, np.ndarray) else not value
    return value is None or (of.default is not MISSING and value == of.default)


def json_types(value: Any) -> Any:
    """Convert records, other dataclasses, mappings, tuples and arrays to JSON types."""
    if isinstance(value, Record):
        return value.to_dict()
    if is_dataclass(value):
        return {field.name: json_types(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_types(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [json_types(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


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
