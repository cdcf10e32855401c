"""In which numbers the graphs of a bundle compute."""

from enum import StrEnum

from limelight.enums import number_of
from limelight.v1 import model_pb2


class Precision(StrEnum):
    """float16 is for CUDA, int8 for CPUs; float32 is how a model was trained."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"

    def describe(self) -> model_pb2.Precision:
        """As a description has it."""
        return number_of(model_pb2.Precision, self.value, what="precision")  # type: ignore[no-any-return]
