"""Checks of tensors, whether a caller sent them or preprocessing made them."""

import numpy as np

from bundle.errors import InputError, OutOfRangeError
from bundle.values import Array
from bundle.wire import DTYPES, data_type_name, data_type_of
from limelight.v1 import model_pb2


def check_tensor(
    array: Array, description: model_pb2.TensorDescription, field: str, *, may_be_empty: bool = False
) -> None:
    """Check a caller's tensor against what the model takes.

    may_be_empty: whether its first axis may have nothing.
    Raises: InputError for type, rank, a fixed or too large axis, an empty axis, or a value that is no finite number;
    OutOfRangeError for an integer outside its range.
    """
    if array.dtype != DTYPES[description.data_type]:
        wanted = data_type_name(description.data_type)
        raise InputError(f"{field}.data_type", f"is {data_type_name(data_type_of(array))}; {wanted} is wanted")
    dimensions = description.dimensions
    if array.ndim != len(dimensions):
        names = ", ".join(dimension.name for dimension in dimensions)
        raise InputError(f"{field}.shape", f"has {array.ndim} axes; [{names}] is wanted, without a batch axis")
    for axis, (dimension, size) in enumerate(zip(dimensions, array.shape, strict=True)):
        if dimension.size and size != dimension.size:
            raise InputError(f"{field}.shape", f"has {size} for {dimension.name}, which is always {dimension.size}")
        if size == 0 and not (may_be_empty and axis == 0):
            raise InputError(f"{field}.shape", f"has nothing along {dimension.name}")
        if dimension.maximum and size > dimension.maximum:
            raise InputError(
                f"{field}.shape", f"has {size} for {dimension.name}; at most {dimension.maximum} are allowed"
            )
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        raise InputError(f"{field}.data", "has NaN or infinity")
    if np.issubdtype(array.dtype, np.integer):
        _check_range(array, description, field)


def _check_range(array: Array, description: model_pb2.TensorDescription, field: str) -> None:
    outside = np.zeros(array.shape, dtype=np.bool_)
    limits = []
    if description.HasField("minimum"):
        outside |= array < description.minimum
        limits.append(f"from {description.minimum}")
    if description.HasField("maximum"):
        outside |= array > description.maximum
        limits.append(f"to {description.maximum}")
    if description.HasField("fill"):
        outside &= array != description.fill
    if outside.any():
        place = tuple(int(index) for index in np.argwhere(outside)[0])
        raise OutOfRangeError(
            f"{field}.data", f"has {int(array[place])} at {list(place)}; values are {' '.join(limits)}"
        )


def real_places(array: Array, description: model_pb2.TensorDescription, field: str) -> Array:
    """Tell the real places of a caller's tensor: all, or where rows can differ in length, those before the fill.

    Raises: InputError where the fill stands before something real, or a row holds nothing else.
    """
    if not description.HasField("fill"):
        return np.ones(array.shape, dtype=np.bool_)
    mask: Array = array != description.fill
    lengths = mask.sum(axis=-1, keepdims=True)
    if not np.array_equal(mask, np.arange(array.shape[-1]) < lengths):
        raise InputError(f"{field}.data", f"has padding ({description.fill:g}) before a real value")
    if (lengths == 0).any():
        raise InputError(f"{field}.data", "has a row that is all padding")
    return mask
