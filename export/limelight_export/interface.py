"""Inputs and outputs of a model's graphs, as its card states them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.hidden import hidden_outputs
from limelight_bundle.interventions import edge_tensors
from limelight_bundle.maps import DENSE_AXES, map_key, map_quantities, nested_mask_name
from limelight_bundle.rows import BoundTensor, joined_dimensions
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_bundle.wire import DTYPES
from limelight_export.errors import ExportError
from limelight_models.cards.card import Card

BATCH = "batch"
STEP = "step"

# The name of an axis that varies, or the size of a fixed axis.
AxisSize = str | int
Axes = tuple[AxisSize, ...]
# The fewest weights, at the largest size, of a map that becomes optional. An If costs 10 us and 8 kB of the graph,
# more than a smaller map does.
_MIN_OPTIONAL_WEIGHTS = 2**16


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a graph.

    `axes` begins with the batch, or with the axis along which the instances of a batch are joined.
    """

    name: str
    dtype: np.dtype[Any]
    axes: Axes

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of the tensor, given the sizes of the axes that vary."""
        return tuple(axis if isinstance(axis, int) else sizes[axis] for axis in self.axes)


def input_tensors(card: Card) -> list[BoundTensor]:
    """List the tensors that a model's inputs become, except the target, which only forces the output.

    Raises:
        ExportError: an input is optional; a graph cannot run without it.
    """
    target = card.generation.target_tensor if card.generation else ""
    tensors, bound = [], card.bound()
    for each in card.description.inputs:
        kept = [bound[tensor.name] for tensor in each.tensors if not target or tensor.name != target]
        if kept and each.optional:
            raise ExportError(f"the input {each.name!r} is optional, but the graphs need it; make it required")
        tensors += kept
    return tensors


def input_specs(card: Card) -> list[TensorSpec]:
    """List the possible inputs of a graph: each input tensor, its mask and instance index, then the noise."""
    specs = []
    for tensor in input_tensors(card):
        specs.append(_tensor_spec(tensor.description, joined=tensor.joined))
        if tensor.mask:
            specs.append(TensorSpec(tensor.mask, np.dtype(np.bool_), specs[-1].axes))
        if tensor.instance_index:
            specs.append(TensorSpec(tensor.instance_index, np.dtype(np.int64), specs[-1].axes[:1]))
    specs += [_tensor_spec(noise.tensor) for noise in card.noise]
    return specs


def output_specs(card: Card) -> list[TensorSpec]:
    """List the outputs of a single-pass model: its outputs, hidden states, maps, and the indices of their edges.

    Raises:
        ExportError: two tensors have the same name.
    """
    joined = joined_axes(card)
    outputs = []
    for each in raw_outputs(card):
        axes = tuple(map(_axis, each.dimensions))
        whole = axes if axes and axes[0] in joined else (BATCH, *axes)
        outputs.append(TensorSpec(each.name, DTYPES[each.data_type], whole))
    maps = [
        replace(map_spec(card, each), name=map_key(each.name, quantity))
        for each, quantity in map_quantities(card.description.maps)
    ]
    edges = {
        name: map_spec(card, each).axes[:1] for each in card.description.maps for name in card.edges.get(each.name, ())
    }
    specs = [*outputs, *maps, *(TensorSpec(name, np.dtype(np.int64), axes) for name, axes in edges.items())]
    names = [spec.name for spec in (*specs, *input_specs(card))]
    if clash := {name for name in names if names.count(name) > 1}:
        raise ExportError(
            f"{sorted(clash)}: each is the name of two tensors among outputs, maps, edge indices and inputs; rename one"
        )
    return specs


def raw_outputs(card: Card) -> list[model_pb2.OutputDescription]:
    """List the outputs that are no maps, hidden states last."""
    return [*card.description.outputs, *hidden_outputs(card.description)]


def hidden_names(card: Card) -> list[str]:
    """List the names of the hidden states."""
    return [each.name for each in card.description.hidden]


def gated_names(card: Card) -> list[str]:
    """List the outputs of a single pass that are computed only on request: hidden states, and maps made of maps."""
    return [*hidden_names(card), *card.derived_maps]


def map_keys(card: Card) -> list[str]:
    """List the names of every quantity of every map, as the model and its graph return them."""
    return [map_key(each.name, quantity) for each, quantity in map_quantities(card.description.maps)]


def edge_index_names(card: Card) -> list[str]:
    """List the tensors that hold the query and the key of each edge of a map, each once."""
    return list(dict.fromkeys(name for each in card.description.maps for name in card.edges.get(each.name, ())))


def joined_axes(card: Card) -> frozenset[str]:
    """Return the axes along which the instances of a batch are joined."""
    return joined_dimensions(card.bound().values())


def map_binding(card: Card, name: str, quantity: attention_pb2.Quantity, graph: str) -> bundle_pb2.MapBinding:
    """Describe the output of a graph that holds one quantity of a map."""
    query_index, key_index = card.edges.get(name, ("", ""))
    return bundle_pb2.MapBinding(
        map=name,
        quantity=quantity,
        graph=graph,
        output=map_key(name, quantity),
        axes=map_axes(card, name),
        query_index=query_index,
        key_index=key_index,
    )


def map_axes(card: Card, name: str) -> tuple[bundle_pb2.Axis, ...]:
    """Return the axes of a map's output. A map of a single decode step has no query axis.

    Raises:
        ExportError: the card does not give the axes, batch or edge first.
    """
    axes = card.map_axes.get(name)
    if not axes or axes[0] not in (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_EDGE):
        raise ExportError(f"the card must give the axes of the map {name}, batch or edge first")
    queries = {each.name: each.query_labels for each in card.description.maps}.get(name)
    kinds = {each.name: each.kind for each in card.description.label_sets}
    if card.generation is None or kinds.get(queries or "") != attention_pb2.LABEL_KIND_OUTPUT_STEPS:
        return tuple(axes)
    return tuple(axis for axis in axes if axis != bundle_pb2.AXIS_QUERY)


def map_spec(card: Card, description: model_pb2.MapDescription) -> TensorSpec:
    """Return the name, type and axes of the output that holds a map."""
    sizes: dict[int, AxisSize] = {
        bundle_pb2.AXIS_BATCH: BATCH,
        bundle_pb2.AXIS_HEAD: description.heads,
        bundle_pb2.AXIS_FEATURE: description.features,
    }
    if card.edges.get(description.name):
        sizes[bundle_pb2.AXIS_EDGE] = _edge_axis(card, description)
    elif description.form == model_pb2.MAP_FORM_EDGES:
        mask = nested_mask_name(card.description, description, card.bound())
        tensor = next(each for each in input_tensors(card) if each.mask == mask)
        sizes[bundle_pb2.AXIS_QUERY], sizes[bundle_pb2.AXIS_KEY] = map(_axis, tensor.description.dimensions)
    else:
        sizes[bundle_pb2.AXIS_QUERY] = _label_axis(card, description.query_labels)
        sizes[bundle_pb2.AXIS_KEY] = _label_axis(card, description.key_labels)
    return TensorSpec(
        description.name,
        np.dtype(np.float32),
        tuple(sizes[axis] for axis in map_axes(card, description.name)),
    )


def max_sizes(card: Card) -> dict[str, int]:
    """Return the largest size of every axis that varies; 0 for no limit."""
    largest: dict[str, int] = {}
    for dimension in _dimensions(card):
        if not dimension.size:
            stated = [each for each in (largest.get(dimension.name, 0), dimension.maximum) if each]
            largest[dimension.name] = min(stated, default=0)
    return largest


def max_batch_sizes(card: Card) -> dict[str, int]:
    """Return the largest size of every axis that varies, in a batch; 0 for no limit and for joined axes."""
    joined = joined_axes(card)
    return {axis: 0 if axis in joined else most for axis, most in max_sizes(card).items()}


def max_axis_size(card: Card) -> int:
    """Return the largest size that any axis of a batch can have; 0 for no limit."""
    sizes = [*max_batch_sizes(card).values(), *([card.generation.max_new_tokens] if card.generation else [])]
    return max(sizes, default=1) if all(sizes) else 0


def optional_map_axes(card: Card) -> dict[str, Axes]:
    """Return the maps that are worth an optional output, with their axes [batch, head, query, key].

    A map of output steps is none of them: each step computes one row of it.
    """
    found = {}
    for each in card.description.maps:
        if each.name in card.derived_maps:
            continue
        if map_axes(card, each.name) == DENSE_AXES and each.form == model_pb2.MAP_FORM_DENSE:
            spec = map_spec(card, each)
            sizes = [axis if isinstance(axis, int) else max_sizes(card)[axis] for axis in spec.axes[1:]]
            if not all(sizes) or math.prod(sizes) >= _MIN_OPTIONAL_WEIGHTS:
                found[each.name] = spec.axes
    return found


def value_axes(card: Card) -> dict[str, Axes]:
    """Return the maps that may have values, dense ones without features, with the axes [batch, head, key] of these."""
    return {
        each.name: (BATCH, each.heads, _label_axis(card, each.key_labels))
        for each in card.description.maps
        if each.name not in card.derived_maps
        and each.form == model_pb2.MAP_FORM_DENSE
        and {bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_QUERY} <= set(map_axes(card, each.name)) <= set(DENSE_AXES)
    }


def check_rank(spec: TensorSpec, array: Array) -> None:
    """Check the number of axes of a tensor. Raises ExportError where it differs from the card's."""
    if array.ndim != len(spec.axes):
        axes = ", ".join(str(axis) for axis in spec.axes)
        raise ExportError(f"{spec.name} has shape {list(array.shape)}; the card states [{axes}]")


def check_tensor(spec: TensorSpec, array: Array, sizes: Mapping[str, int]) -> None:
    """Check the type and the shape of a tensor. Raises ExportError where they differ from the card's."""
    if array.dtype != spec.dtype:
        raise ExportError(f"{spec.name} is {array.dtype}; the card states {spec.dtype}")
    if array.shape != spec.shape(sizes):
        axes = ", ".join(str(axis) for axis in spec.axes)
        raise ExportError(
            f"{spec.name} has shape {list(array.shape)}; the card states [{axes}], here {list(spec.shape(sizes))}"
        )


def _dimensions(card: Card) -> Iterator[model_pb2.Dimension]:
    for tensor in input_tensors(card):
        yield from tensor.description.dimensions
    for noise in card.noise:
        yield from noise.tensor.dimensions


def _tensor_spec(tensor: model_pb2.TensorDescription, *, joined: bool = False) -> TensorSpec:
    axes = tuple(map(_axis, tensor.dimensions))
    return TensorSpec(tensor.name, DTYPES[tensor.data_type], axes if joined else (BATCH, *axes))


def _edge_axis(card: Card, description: model_pb2.MapDescription) -> AxisSize:
    """Return the axis of a map's edges: the first axis of a tensor that indexes the map's queries."""
    queries = _label_axis(card, description.query_labels)
    for tensor in input_tensors(card):
        if tensor.indexes == queries:
            return _axis(tensor.description.dimensions[0])
    raise ExportError(f"the map {description.name} is output as edges, but no input tensor indexes its queries")


def _axis(dimension: model_pb2.Dimension) -> AxisSize:
    return dimension.size or dimension.name


def _label_axis(card: Card, name: str) -> AxisSize:
    """Return the axis whose entries a label set names."""
    labels = next((each for each in card.description.label_sets if each.name == name), None)
    if labels is None:
        raise ExportError(f"the label set {name!r} is not described")
    if labels.HasField("grid"):
        return len(labels.grid.leading) + labels.grid.rows * labels.grid.columns
    if labels.HasField("frames"):
        return labels.frames.count
    if labels.kind == attention_pb2.LABEL_KIND_ONE:
        return 1
    if labels.names:
        return len(labels.names)
    if labels.kind in (attention_pb2.LABEL_KIND_OUTPUT_STEPS, attention_pb2.LABEL_KIND_INPUT_STEPS):
        return STEP
    for tensor in input_tensors(card):
        for dimension in tensor.description.dimensions:
            if (tensor.name, dimension.name) == (labels.tensor, labels.dimension):
                return _axis(dimension)
    raise ExportError(f"the label set {name!r} refers to no axis of an input tensor")


@dataclass(frozen=True)
class IntervenedMap:
    """A map that may be intervened on. nested: mask [batch, query, key of the query] of nested keys; else empty."""

    heads: int
    nested: str = ""


def intervened_maps(card: Card) -> dict[str, IntervenedMap]:
    """Return the maps that may be intervened on: those without features, and not made of others."""
    found = {}
    for each in card.description.maps:
        if each.name in card.derived_maps:
            continue
        axes, bound = set(map_axes(card, each.name)), card.bound()
        if axes == {bundle_pb2.AXIS_EDGE, bundle_pb2.AXIS_HEAD} and edge_tensors(card.bundle()):
            found[each.name] = IntervenedMap(each.heads)
        elif axes <= set(DENSE_AXES):
            found[each.name] = IntervenedMap(each.heads, nested_mask_name(card.description, each, bound))
    return found
