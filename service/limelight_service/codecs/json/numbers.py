"""Arrays as JSON: numbers, flat or in nested lists, and for numbers that are not finite the words of proto3 JSON."""

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import orjson

from limelight.base.counts import counted
from limelight_bundle.errors import InputError, Path
from limelight_bundle.values import Array

_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MOST_AXES = 9  # one of rows, and those of an instance
_LONGEST = 40  # characters of a value that is repeated to its caller


def written(value: Any) -> bytes:
    """Write JSON; arrays as nested lists."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def array_of(value: Any, dtype: np.dtype[Any], path: Path) -> Array:
    """Make an array of JSON numbers: of a number, a list, or nested lists, whose shape it has.

    Args:
        dtype: of booleans, whole numbers or floating-point numbers.

    Raises:
        InputError: names the value that is none of the type, or the list whose length differs from its neighbours'.
    """
    flat, shape = flattened(value, path)
    if dtype.kind == "b":
        array = _booleans(flat, path)
    elif dtype.kind == "f":
        array = _floats(flat, dtype, path)
    else:
        array = _integers(flat, dtype, path)
    return array.reshape(shape)


def json_of(array: Array) -> Any:
    """Give what `orjson` writes as the numbers of an array, in nested lists."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        return _words(array.tolist())
    if not array.ndim:
        return array.reshape(1)[0]
    if array.size:
        return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    return array.tolist()  # an axis of size 0


def flattened(value: Any, path: Path) -> tuple[Sequence[Any], tuple[int, ...]]:
    """Give the elements of nested lists, and their shape. Raises: InputError for lists of different lengths."""
    if not isinstance(value, list):
        return [value], ()
    flat: list[Any] = value
    shape = [len(flat)]
    while flat and isinstance(flat[0], list):
        size = len(flat[0])
        for place, each in enumerate(flat):
            if not isinstance(each, list) or len(each) != size:
                found = f"has {counted(len(each), 'element')}" if isinstance(each, list) else f"is {shown(each)}"
                raise InputError((*path, *_indices(place, shape)), f"{found}; the first of its axis has {size}")
        shape.append(size)
        if len(shape) > _MOST_AXES:
            raise InputError(path, f"has more than {_MOST_AXES} axes")
        flat = list(chain.from_iterable(flat))
    return flat, tuple(shape)


def _indices(place: int, shape: Sequence[int]) -> Path:
    """Give the indices of an element along each axis."""
    return tuple([int(each) for each in np.unravel_index(place, shape)])


def _booleans(flat: Sequence[Any], path: Path) -> Array:
    for place, each in enumerate(flat):
        if each is not True and each is not False:
            raise InputError(path, f"has {shown(each)} as element {place}; it takes true and false")
    return np.array(flat, np.bool_)


def _integers(flat: Sequence[Any], dtype: np.dtype[Any], path: Path) -> Array:
    limits = np.iinfo(dtype)
    if not set(map(type, flat)) <= {int}:
        flat = [_whole(each, place, path) for place, each in enumerate(flat)]
    if not flat:
        return np.zeros(0, dtype)
    if min(flat) < limits.min or max(flat) > limits.max:
        place, value = next((at, each) for at, each in enumerate(flat) if not limits.min <= each <= limits.max)
        reach = f"it takes {limits.min} to {limits.max}"
        raise InputError(path, f"has {shown(value)} as element {place}; {reach}")
    return np.array(flat, dtype)


def _whole(value: Any, place: int, path: Path) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise InputError(path, f"has {shown(value)} as element {place}; it takes whole numbers")


def _floats(flat: Sequence[Any], dtype: np.dtype[Any], path: Path) -> Array:
    if not set(map(type, flat)) <= {int, float}:
        flat = [_real(each, place, path) for place, each in enumerate(flat)]
    wide = np.array(flat, np.float64)
    with np.errstate(over="ignore"):
        array = wide.astype(dtype)
    beyond = np.isinf(array) & np.isfinite(wide)
    if beyond.any():
        place = int(beyond.argmax())
        raise InputError(path, f"has {shown(flat[place])} as element {place}, which is beyond {dtype.name}")
    return array


def _real(value: Any, place: int, path: Path) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    words = ", ".join(f'"{each}"' for each in _NOT_FINITE)
    raise InputError(path, f"has {shown(value)} as element {place}; it takes numbers, {words}")


def _words(value: Any) -> Any:
    """Replace numbers that are not finite by their words."""
    if isinstance(value, list):
        return [_words(each) for each in value]
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def shown(value: Any) -> str:
    """Write a value of JSON for a message: short, and a list or object by its kind alone."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
