"""Precision of a bundle's graphs."""

from enum import StrEnum

from limelight.base.enums import number_of
from limelight.v1 import model_pb2


class Precision(StrEnum):
    """Precision of computation: float32 as trained, float16 for CUDA, int8 for CPUs."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"

    def describe(self) -> model_pb2.Precision:
        """Return the precision as a model description states it."""
        return number_of(model_pb2.Precision, self.value, what="precision")  # type: ignore[no-any-return]
