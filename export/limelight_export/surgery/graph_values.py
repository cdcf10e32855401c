"""Metadata of models, and shapes of their inputs and outputs."""

from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message

from limelight_export.interface import AxisSize

PRODUCER = "limelight"
# Exporters write stack traces, with paths of source files, into these fields.
_METADATA_FIELDS = ("doc_string", "metadata_props")


def strip_metadata(message: Message) -> None:
    """Clear documentation and metadata everywhere inside a message."""
    for field, content in message.ListFields():
        if field.name in _METADATA_FIELDS:
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE:
            for each in content if field.is_repeated else [content]:
                strip_metadata(each)


def set_shape(value: Any, axes: Sequence[AxisSize]) -> None:
    """Set the shape of a graph's input or output."""
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for axis in axes:
        if isinstance(axis, int):
            shape.dim.add(dim_value=axis)
        else:
            shape.dim.add(dim_param=axis)
