"""Last stage of a graph: attention and packing expanded, shapes checked and set, metadata removed."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_ir

from limelight_export.errors import ExportError
from limelight_export.interface import Axes, AxisSize, IntervenedMap, TensorSpec
from limelight_export.surgery.attention import expand_attention
from limelight_export.surgery.derived_sizes import equals_size
from limelight_export.surgery.effective_maps import expand_effective_maps
from limelight_export.surgery.gated_outputs import attach_outputs, declare_gates, detach_outputs
from limelight_export.surgery.graph_values import PRODUCER, set_shape, strip_metadata
from limelight_export.surgery.intervention_inputs import Intervention, declare_intervention
from limelight_export.surgery.interventions import drop_interventions, expand_interventions
from limelight_export.surgery.optional_maps import OptionalMap, declare_optional_map
from limelight_export.surgery.token_packing import expand_token_packing
from limelight_export.surgery.values import add_values, declare_values


class FinalisedModel(NamedTuple):
    """A complete model, its optional maps, the masks by which it packs tokens, its interventions and values by map."""

    model: onnx.ModelProto
    optional_maps: dict[str, OptionalMap]
    packing_masks: tuple[str, ...]
    interventions: dict[str, Intervention]
    values: dict[str, TensorSpec]


def finalise(
    model: "onnx_ir.Model",
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    max_axis_size: int,
    optional_map_axes: Mapping[str, Axes] = MappingProxyType({}),
    intervened_maps: Mapping[str, IntervenedMap] = MappingProxyType({}),
    gated: Sequence[str] = (),
    derived: Sequence[str] = (),
    value_axes: Mapping[str, Axes] = MappingProxyType({}),
) -> FinalisedModel:
    """Turn a traced model into the model that a bundle holds.

    Every axis that varies must do so in the inputs. The exporter sometimes writes the example's sizes into the outputs,
    so their shapes are set from the card, unless it states another size; `limelight_export.verification` checks them
    at several.

    Args:
        max_axis_size: as `limelight_export.interface.max_axis_size` gives it.
        optional_map_axes: as `limelight_export.interface.optional_map_axes` gives it.
        intervened_maps: outputs that may be intervened on, of a graph for that.
        gated: outputs that hold values only where a run requests them.
        derived: those of them that are made of maps.
        value_axes: as `limelight_export.interface.value_axes` gives it.
    Raises:
        ExportError: the exporter froze an axis of an input, or derived that an axis of an output is not the card's.
    """
    proto: onnx.ModelProto = onnx_ir.to_proto(model)
    strip_metadata(proto)
    shapes = {name: [axis if isinstance(axis, int) else 0 for axis in axes] for name, axes in optional_map_axes.items()}
    detached = detach_outputs(proto, derived)  # else maps would seem to be read, and be computed for every run
    intervenes = bool(intervened_maps)
    optional_maps = expand_effective_maps(proto, shapes, intervenes=intervenes)
    if not intervenes:
        drop_interventions(proto)
    optional_maps |= expand_attention(proto, shapes, max_axis_size, intervenes=intervenes)
    interventions = expand_interventions(proto, intervened_maps) if intervenes else {}
    values = add_values(proto, {name: axes for name, axes in value_axes.items() if name not in optional_maps})
    packed = expand_token_packing(proto)
    detached += detach_outputs(proto, [name for name in gated if name not in derived])
    attach_outputs(proto, detached, optional_maps)
    del proto.graph.value_info[:]
    proto.producer_name, proto.producer_version = PRODUCER, ""
    _check_names(proto.graph.input, inputs, "inputs")
    _check_names(proto.graph.output, outputs, "outputs")
    symbols: dict[AxisSize, str] = {}
    for value, spec in zip(proto.graph.input, inputs, strict=True):
        for dimension, axis in zip(_dimensions(value), spec.axes, strict=True):
            _check_input_axis(dimension, axis, spec)
            symbols.setdefault(axis, dimension.dim_param)
        set_shape(value, spec.axes)
    for value, spec in zip(proto.graph.output, outputs, strict=True):
        _check_output_axes(value, spec, symbols, max_axis_size)
        set_shape(value, spec.axes)
    for spec in values.values():
        declare_values(proto, spec)
    for name, optional_map in optional_maps.items():
        declare_optional_map(proto, optional_map, optional_map_axes[name])
        if optional_map.values and name in value_axes:
            sizes = (*value_axes[name], optional_map.value_size)
            values[name] = TensorSpec(optional_map.values, np.dtype(np.float32), sizes)
    for intervention in interventions.values():
        declare_intervention(proto, intervention)
    declare_gates(proto, gated)
    return FinalisedModel(proto, optional_maps, packed, interventions, values)


def _check_names(values: Sequence[Any], specs: Sequence[TensorSpec], kind: str) -> None:
    found, wanted = [value.name for value in values], [spec.name for spec in specs]
    if found != wanted:
        raise ExportError(f"the exporter's graph has the {kind} {found}, not {wanted}")


def _check_input_axis(dimension: Any, axis: AxisSize, spec: TensorSpec) -> None:
    if isinstance(axis, str) and not dimension.dim_param:
        raise ExportError(
            f"the exporter froze the axis {axis} of the input {spec.name!r} at {dimension.dim_value}: the module makes "
            "a number of its size, as len(tensor) and int() do; tensor.shape[0] keeps an axis as it is"
        )
    if isinstance(axis, int) and dimension.dim_value != axis:
        raise ExportError(f"the input {spec.name!r} has an axis of {dimension.dim_value} where the card states {axis}")


def _check_output_axes(value: Any, spec: TensorSpec, symbols: Mapping[AxisSize, str], most: int) -> None:
    """Compare the axes of an output that are as long as one of an input with what the exporter derives."""
    for dimension, axis in zip(_dimensions(value), spec.axes, strict=False):
        derived, symbol = dimension.dim_param, symbols.get(axis)
        if derived and symbol and derived != symbol and not equals_size(derived, symbol, most):
            raise ExportError(
                f"an axis of {spec.name!r} is not always as long as {axis}: its size is {derived}; leave it out of the "
                f"card, or state a `largest` of {axis} up to which the two are equal"
            )


def _dimensions(value: Any) -> list[Any]:
    return list(value.type.tensor_type.shape.dim)
