"""The element types of the Open Inference Protocol that models here have."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from limelight.v1 import values_pb2
from limelight_service.open_inference import open_inference_pb2 as pb


@dataclass(frozen=True)
class DataType:
    """A type. dtype: of its arrays; objects for BYTES. field: of typed contents; empty for none. config: in a
    `ModelConfig`.
    """

    name: str
    dtype: np.dtype[Any]
    field: str
    config: pb.DataType


BYTES = DataType("BYTES", np.dtype(object), "bytes_contents", pb.TYPE_STRING)
FP32 = DataType("FP32", np.dtype("<f4"), "fp32_contents", pb.TYPE_FP32)
FP64 = DataType("FP64", np.dtype("<f8"), "fp64_contents", pb.TYPE_FP64)
INT32 = DataType("INT32", np.dtype("<i4"), "int_contents", pb.TYPE_INT32)
_ALL = (
    DataType("BOOL", np.dtype("?"), "bool_contents", pb.TYPE_BOOL),
    DataType("UINT8", np.dtype("u1"), "uint_contents", pb.TYPE_UINT8),
    INT32,
    DataType("INT64", np.dtype("<i8"), "int64_contents", pb.TYPE_INT64),
    DataType("FP16", np.dtype("<f2"), "", pb.TYPE_FP16),
    FP32,
    FP64,
    BYTES,
)
DATA_TYPES = {each.name: each for each in _ALL}
_BY_DTYPE = {each.dtype: each for each in _ALL}
_WIRE = {
    values_pb2.DATA_TYPE_FLOAT32: "FP32",
    values_pb2.DATA_TYPE_FLOAT16: "FP16",
    values_pb2.DATA_TYPE_FLOAT64: "FP64",
    values_pb2.DATA_TYPE_INT32: "INT32",
    values_pb2.DATA_TYPE_INT64: "INT64",
    values_pb2.DATA_TYPE_UINT8: "UINT8",
    values_pb2.DATA_TYPE_BOOL: "BOOL",
}


def of_dtype(dtype: np.dtype[Any]) -> DataType:
    """Give the type of an array's elements."""
    return _BY_DTYPE[dtype.newbyteorder("<")]


def of_wire(data_type: int) -> DataType:
    """Give the type that limelight.v1 calls by this number."""
    return DATA_TYPES[_WIRE[data_type]]  # type: ignore[index]
