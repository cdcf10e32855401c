"""Checks of tensors from callers or from preprocessing."""

import numpy as np

from limelight.base.counts import counted
from limelight.v1 import model_pb2
from limelight_bundle.errors import InputError, OutOfRangeError, Path
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES, data_type_name, data_type_of


def check_tensor(
    array: Array, description: model_pb2.TensorDescription, field: Path, *, may_be_empty: bool = False
) -> None:
    """Check a tensor against the model's description.

    Args:
        may_be_empty: whether the first axis may have size 0.
    Raises:
        InputError: wrong type or rank, a wrong, too large or empty axis, NaN or infinity.
        OutOfRangeError: an integer outside its range.
    """
    if array.dtype != DTYPES[description.data_type]:
        wanted = data_type_name(description.data_type)
        raise InputError((*field, "data_type"), f"is {data_type_name(data_type_of(array))}; expected {wanted}")
    dimensions = description.dimensions
    if array.ndim != len(dimensions):
        names = ", ".join(dimension.name for dimension in dimensions)
        raise InputError(
            (*field, "shape"), f"has {counted(array.ndim, 'axis', 'axes')}; expected [{names}], without a batch axis"
        )
    for axis, (dimension, size) in enumerate(zip(dimensions, array.shape, strict=True)):
        if dimension.size and size != dimension.size:
            raise InputError((*field, "shape"), f"has {size} for {dimension.name}, which is always {dimension.size}")
        if size == 0 and not (may_be_empty and axis == 0):
            raise InputError((*field, "shape"), f"has size 0 along {dimension.name}")
        if dimension.maximum and size > dimension.maximum:
            raise InputError(
                (*field, "shape"), f"has {size} for {dimension.name}; at most {dimension.maximum} are allowed"
            )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError((*field, "data"), "has NaN or infinity")
    if array.dtype.kind in "iu":
        _check_range(array, description, field)


def _check_range(array: Array, description: model_pb2.TensorDescription, field: Path) -> None:
    limits = []
    if description.HasField("minimum"):
        outside = array < description.minimum
        limits.append(f"from {description.minimum}")
    if description.HasField("maximum"):
        above = array > description.maximum
        outside = outside | above if limits else above
        limits.append(f"to {description.maximum}")
    if not limits:
        return
    if description.HasField("fill"):
        outside &= array != description.fill
    if outside.any():
        place = tuple(int(index) for index in np.argwhere(outside)[0])
        raise OutOfRangeError(
            (*field, "data"), f"has {int(array[place])} at {list(place)}; values are {' '.join(limits)}"
        )


def real_places(array: Array, description: model_pb2.TensorDescription, field: Path) -> Array:
    """Return the mask of real values: all, or where rows may differ in length, those before the fill.

    Raises:
        InputError: the fill precedes a real value, or a row has no real value.
    """
    if not description.HasField("fill"):
        return np.ones(array.shape, dtype=np.bool_)
    mask: Array = array != description.fill
    lengths = mask.sum(axis=-1, keepdims=True)
    if not np.array_equal(mask, np.arange(array.shape[-1]) < lengths):
        raise InputError((*field, "data"), f"has padding ({description.fill:g}) before a real value")
    if (lengths == 0).any():
        raise InputError((*field, "data"), "has a row that is all padding")
    return mask
