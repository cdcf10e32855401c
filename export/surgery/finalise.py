"""The last work on a graph: shapes asserted and repaired, everything that tells of this machine taken out."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import onnx
import onnx_ir
from google.protobuf.message import Message

from export.errors import ExportError
from export.interface import Axes, AxisSize, Port
from export.surgery.attention import expand
from export.surgery.optional_maps import Switch, declare
from export.surgery.token_packing import expand_packing

_PRODUCER = "limelight"
# The exporter writes stack traces, with the paths of source files, into these.
_TELLING = ("doc_string", "metadata_props")


class Finished(NamedTuple):
    """A model, the switches of those maps that are computed only where they are asked for, and the masks by which it
    packs tokens.
    """

    model: onnx.ModelProto
    switches: dict[str, Switch]
    packed: tuple[str, ...]


def finish(
    model: "onnx_ir.Model",
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    *,
    longest: int,
    switchable: Mapping[str, Axes] = MappingProxyType({}),
) -> Finished:
    """Turn an exported model into the one that a bundle holds.

    longest, switchable: as `export.interface` gives them.

    Every axis that varies must still do so in the inputs; the outputs' shapes are then stated as they are known to be,
    for the exporter sometimes writes the example's sizes there. (That they are true is for the comparison at several
    sizes to show.)
    Raises: ExportError naming the input and the axis that was frozen.
    """
    proto: onnx.ModelProto = onnx_ir.to_proto(model)
    strip(proto)
    shapes = {name: [axis if isinstance(axis, int) else 0 for axis in axes] for name, axes in switchable.items()}
    switches = expand(proto, shapes, longest)
    packed = expand_packing(proto)
    del proto.graph.value_info[:]
    proto.producer_name, proto.producer_version = _PRODUCER, ""
    _check_names(proto.graph.input, inputs, "inputs")
    _check_names(proto.graph.output, outputs, "outputs")
    for value, port in zip(proto.graph.input, inputs, strict=True):
        for dimension, axis in zip(_dimensions(value), port.axes, strict=True):
            _check_input_axis(dimension, axis, port)
        state_shape(value, port.axes)
    for value, port in zip(proto.graph.output, outputs, strict=True):
        state_shape(value, port.axes)
    for name, switch in switches.items():
        declare(proto, switch, switchable[name])
    return Finished(proto, switches, packed)


def strip(message: Message) -> None:
    """Clear documentation and metadata everywhere inside a message."""
    for field, content in message.ListFields():
        if field.name in _TELLING:
            message.ClearField(field.name)
        elif field.type == field.TYPE_MESSAGE:
            for each in content if field.is_repeated else [content]:
                strip(each)


def state_shape(value: Any, axes: Sequence[AxisSize]) -> None:
    """Write the shape of a graph's input or output."""
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for axis in axes:
        if isinstance(axis, int):
            shape.dim.add(dim_value=axis)
        else:
            shape.dim.add(dim_param=axis)


def _check_names(values: Sequence[Any], ports: Sequence[Port], kind: str) -> None:
    found, wanted = [value.name for value in values], [port.name for port in ports]
    if found != wanted:
        raise ExportError(f"the exporter gave the graph the {kind} {found}, not {wanted}")


def _check_input_axis(dimension: Any, axis: AxisSize, port: Port) -> None:
    if isinstance(axis, str) and not dimension.dim_param:
        raise ExportError(f"the exporter froze the axis {axis} of the input {port.name!r} at {dimension.dim_value}")
    if isinstance(axis, int) and dimension.dim_value != axis:
        raise ExportError(f"the input {port.name!r} has an axis of {dimension.dim_value} where the card states {axis}")


def _dimensions(value: Any) -> list[Any]:
    return list(value.type.tensor_type.shape.dim)
