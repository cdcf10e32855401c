"""Conversion between NumPy arrays and protocol tensors."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limelight.v1 import values_pb2

# The protocol is little-endian on every machine.
DTYPES: dict[int, np.dtype[Any]] = {
    values_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    values_pb2.DATA_TYPE_FLOAT16: np.dtype("<f2"),
    values_pb2.DATA_TYPE_FLOAT64: np.dtype("<f8"),
    values_pb2.DATA_TYPE_INT32: np.dtype("<i4"),
    values_pb2.DATA_TYPE_INT64: np.dtype("<i8"),
    values_pb2.DATA_TYPE_UINT8: np.dtype("u1"),
    values_pb2.DATA_TYPE_BOOL: np.dtype("?"),
}
# In the stubs each enum has its own type; at run time it is int.
DATA_TYPES: dict[np.dtype[Any], Any] = {dtype: data_type for data_type, dtype in DTYPES.items()}


MOST_AXES = 9
# Entries along the axes of a tensor without numbers, whose bytes say nothing of them.
_MOST_EMPTY = 2**22


def to_tensor(array: NDArray[Any]) -> values_pb2.Tensor:
    """Convert an array of any shape to a tensor.

    Raises:
        TypeError: the protocol does not have the element type.
    """
    data_type = DATA_TYPES.get(array.dtype.newbyteorder("<"))
    if data_type is None:
        known = ", ".join(dtype.name for dtype in DATA_TYPES)
        raise TypeError(f"a tensor's element type is one of {known}, not {array.dtype}")
    data = array.astype(DTYPES[data_type], copy=False).tobytes()
    return values_pb2.Tensor(data_type=data_type, shape=array.shape, data=data)


def to_array(tensor: values_pb2.Tensor) -> NDArray[Any]:
    """Convert a tensor to a read-only array over the message's bytes.

    Raises:
        ValueError: the data do not match type and shape.
    """
    dtype, shape = DTYPES.get(tensor.data_type), tuple(tensor.shape)
    if dtype is None:
        raise ValueError(f"a tensor of the unknown element type {int(tensor.data_type)}")
    if len(shape) > MOST_AXES:  # first, as the product of many sizes takes minutes
        raise ValueError(f"a tensor of {len(shape)} axes")
    if any(size < 0 for size in shape) or math.prod(shape) * dtype.itemsize != len(tensor.data):
        raise ValueError(f"a tensor of shape {list(shape)} and type {dtype.name} with {len(tensor.data)} bytes of data")
    if not tensor.data and math.prod(size or 1 for size in shape) > _MOST_EMPTY:
        raise ValueError(f"a tensor of shape {list(shape)} without data")
    return np.frombuffer(tensor.data, dtype).reshape(shape)
