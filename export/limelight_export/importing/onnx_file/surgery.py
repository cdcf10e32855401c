"""Turns an ONNX file into a graph of a bundle: inputs as preprocessing makes them, maps in one form and optional."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np
import onnx
from onnx import helper

from limelight_bundle.interventions import INTERVENED_GRAPH
from limelight_export.exported_graph import ExportedGraph
from limelight_export.importing.describe import ImportedCard
from limelight_export.importing.inputs import ModelInput
from limelight_export.importing.maps import MapSource
from limelight_export.importing.onnx_file.file import FileTensor, OnnxFile
from limelight_export.importing.onnx_file.interventions import mark_weights, newer_model
from limelight_export.interface import (
    AxisSize,
    IntervenedMap,
    TensorSpec,
    input_specs,
    intervened_maps,
    optional_map_axes,
    output_specs,
)
from limelight_export.surgery.graph_values import PRODUCER, set_shape, strip_metadata
from limelight_export.surgery.intervention_inputs import declare_intervention
from limelight_export.surgery.interventions import expand_interventions
from limelight_export.surgery.node_builder import NodeBuilder
from limelight_export.surgery.optional_maps import OptionalMap, declare_optional_map
from limelight_export.surgery.subgraphs import rename_reads
from limelight_models.cards.card import Card

_CANONICAL = ("batch", "head", "query", "key")
_QUERY_AXIS = 2


@dataclass(frozen=True, kw_only=True)
class GraphPart:
    """A graph of a bundle, and where its inputs and outputs are in a file.

    Attributes:
        name: `main`, `encoder` or `step`.
        converted: how an input differs from the file's own, by its name.
        renamed: for an input of another name: the graph's name by the file's.
        widened: inputs [batch] that the file takes as [batch, 1].
        outputs, maps: the file's tensor of each.
        optional: maps that become optional outputs.
        squeezed: whether maps lose their query axis, which has size 1.
    """

    name: str
    inputs: Sequence[TensorSpec]
    outputs: Mapping[str, tuple[str, TensorSpec]]
    maps: Mapping[str, tuple[MapSource, TensorSpec]]
    converted: Mapping[str, ModelInput] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    widened: Collection[str] = ()
    optional: Collection[str] = ()
    squeezed: bool = False


def bundle_graphs(file: OnnxFile, imported: ImportedCard) -> list[ExportedGraph]:
    """Return the graphs of a bundle that answers in one pass: its own, and the one for interventions if it can be."""
    card = imported.card
    specs = {spec.name: spec for spec in output_specs(card)}
    part = GraphPart(
        name="main",
        inputs=[spec for spec in input_specs(card) if spec.name in imported.inputs],
        converted=imported.inputs,
        outputs={name: (name, specs[name]) for name in imported.outputs},
        maps={name: (source, specs[name]) for name, source in imported.maps.items()},
        optional=optional_map_axes(card).keys(),
    )
    return [part_graph(file, part), *intervened_part(file, part, INTERVENED_GRAPH, card)]


def intervened_part(file: OnnxFile, part: GraphPart, name: str, card: Card) -> list[ExportedGraph]:
    """Return the graph of a bundle that answers a part with interventions, if weights in it can be marked."""
    changed = {name: each for name, each in intervened_maps(card).items() if name in part.maps}
    try:
        newer = replace(file, model=newer_model(file.model))
    except Exception:  # the converter raises its own C++ errors
        return []
    made = part_graph(newer, replace(part, name=name, optional=()), changed)
    return [made] if made.interventions else []


def part_graph(
    file: OnnxFile, part: GraphPart, intervened: Mapping[str, IntervenedMap] = MappingProxyType({})
) -> ExportedGraph:
    """Return one graph of a bundle. intervened: the maps that may be intervened on, in a graph for that."""
    model = onnx.ModelProto()
    model.CopyFrom(file.model)
    strip_metadata(model)
    model.producer_name, model.producer_version = PRODUCER, ""
    del model.graph.output[:], model.graph.value_info[:]
    moved = _make_room(model, part)
    _convert_inputs(model, file, part)
    for name, (source, spec) in part.outputs.items():
        _add_output(model, name, moved.get(source, source), spec, file.outputs[source].dtype)
    optional_maps = {name: OptionalMap.without_projections(name) for name in part.maps if name in part.optional}
    for name, (map_source, spec) in part.maps.items():
        read = moved.get(map_source.output, map_source.output)
        if name in intervened and (changed := mark_weights(model, name, read, map_source, intervened[name].heads)):
            read, map_source = changed, MapSource(changed, _CANONICAL, 0)
        nodes = _map_nodes(name, read, map_source, spec, optional_maps.get(name), squeezed=part.squeezed)
        model.graph.node.extend(nodes)
        model.graph.output.append(_output_value(spec))
    for name, optional_map in optional_maps.items():
        declare_optional_map(model, optional_map, part.maps[name][1].axes)
    interventions = expand_interventions(model, intervened) if intervened else {}
    for each in interventions.values():
        declare_intervention(model, each)
    return ExportedGraph(
        part.name,
        "model.onnx" if part.name == "main" else f"{part.name}.onnx",
        model,
        tuple(part.inputs),
        tuple(spec for _, spec in (*part.outputs.values(), *part.maps.values())),
        optional_maps,
        interventions=interventions,
    )


def _make_room(model: onnx.ModelProto, part: GraphPart) -> dict[str, str]:
    """Rename inner values that have the name of a map, of a renamed input or output, or of an output to be cast.

    Returns: the new names by the old ones.
    """
    made = {name for node in model.graph.node for name in node.output}
    wanted = [*part.maps, *part.renamed.values(), *part.outputs]
    moved = {name: f"{name}.inside" for name in wanted if name in made}
    for node in model.graph.node:
        node.output[:] = [moved.get(name, name) for name in node.output]
    rename_reads(model.graph, moved)
    return moved


def _convert_inputs(model: onnx.ModelProto, file: OnnxFile, part: GraphPart) -> None:
    """Give a graph the inputs of its part, each converted to the file's own where it differs."""
    own_names = {new: old for old, new in part.renamed.items()}
    builder = NodeBuilder("limelight_input_")
    values, made = [], {}
    for spec in part.inputs:
        own = file.inputs[own_names.get(spec.name, spec.name)]
        made[own.name] = _converted(builder, spec, own, part)
        value = helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(spec.dtype), None)
        set_shape(value, _declared_axes(spec, own))
        values.append(value)
    rename_reads(model.graph, made)
    del model.graph.input[:]
    model.graph.input.extend(values)
    after = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*builder.nodes, *after])


def _converted(builder: NodeBuilder, spec: TensorSpec, own: FileTensor, part: GraphPart) -> str:
    made, stated = spec.name, part.converted.get(spec.name, ModelInput(spec.name))
    for axis in stated.dropped:
        made = builder.add("Gather", made, builder.constant(np.int64(0)), axis=axis)
    if stated.inverted:
        made = builder.add("Not", made)
    if stated.channels_last:
        made = builder.add("Transpose", made, perm=[0, 2, 3, 1])
    if spec.name in part.widened:
        made = builder.add("Unsqueeze", made, builder.integers(1))
    if own.dtype != spec.dtype:
        made = builder.add("Cast", made, to=helper.np_dtype_to_tensor_dtype(own.dtype))
    return made


def _add_output(model: onnx.ModelProto, name: str, read: str, spec: TensorSpec, dtype: "np.dtype[np.generic]") -> None:
    """Append an output of a graph: a value of the file, of the part's type."""
    builder = NodeBuilder(f"{name}_")
    if dtype != spec.dtype:
        builder.add("Cast", read, to=helper.np_dtype_to_tensor_dtype(spec.dtype), output=name)
    elif name != read:
        builder.add("Identity", read, output=name)
    model.graph.node.extend(builder.nodes)
    model.graph.output.append(_output_value(spec))


def _map_nodes(
    name: str,
    read: str,
    source: MapSource,
    spec: TensorSpec,
    optional_map: OptionalMap | None,
    *,
    squeezed: bool,
) -> Iterable[onnx.NodeProto]:
    """Build the nodes that make a map of a file's tensor."""
    builder = NodeBuilder(f"{name}_")
    if optional_map is None:
        made = _canonical(builder, read, source)
        if squeezed:
            builder.add("Squeeze", made, builder.integers(_QUERY_AXIS), output=name)
        else:
            builder.add("Identity", made, output=name)
        return builder.nodes
    shape = [axis if isinstance(axis, int) else 0 for axis in spec.axes]
    probed = builder.add("Cast", builder.add("Size", optional_map.heads), to=onnx.TensorProto.BOOL)
    whole = builder.if_else(
        optional_map.gate,
        lambda side: [_canonical(side, read, source)],
        lambda side: [side.empty((0, *shape[1:]))],
        1,
    )
    rows = builder.if_else(
        probed,
        lambda side: [_rows(side, _canonical(side, read, source), optional_map)],
        lambda side: [side.empty((0, 0, 0, shape[3]))],
        1,
    )
    builder.rename([*whole, *rows], [name, optional_map.rows])
    return builder.nodes


def _canonical(builder: NodeBuilder, read: str, source: MapSource) -> str:
    """Build the nodes that turn a file's weights into [batch, head, query, key]."""
    axes = list(source.axes)
    made = builder.add("Cast", read, to=onnx.TensorProto.FLOAT)
    if source.heads:
        rest = builder.add("Slice", builder.add("Shape", made), builder.integers(1), builder.integers(3))
        shape = builder.add("Concat", builder.integers(-1, source.heads), rest, axis=0)
        made, axes = builder.add("Reshape", made, shape), ["batch", "head", *axes[1:]]
    order = [axes.index(axis) for axis in _CANONICAL if axis in axes]
    if order != sorted(order):
        made = builder.add("Transpose", made, perm=order)
    missing = [place for place, axis in enumerate(_CANONICAL) if axis not in axes]
    return builder.add("Unsqueeze", made, builder.integers(*missing)) if missing else made


def _rows(builder: NodeBuilder, weights: str, optional_map: OptionalMap) -> str:
    of_heads = builder.add("Gather", weights, optional_map.heads, axis=1)
    return builder.add("Gather", of_heads, optional_map.queries, axis=_QUERY_AXIS)


def _output_value(spec: TensorSpec) -> onnx.ValueInfoProto:
    value = helper.make_tensor_value_info(spec.name, helper.np_dtype_to_tensor_dtype(spec.dtype), None)
    set_shape(value, spec.axes)
    return value


def _declared_axes(spec: TensorSpec, own: FileTensor) -> Sequence[AxisSize]:
    """Return the axes of an input; a batch whose size the file fixes keeps it."""
    return (own.axes[0], *spec.axes[1:]) if own.axes and isinstance(own.axes[0], int) else spec.axes
