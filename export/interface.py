"""What goes into a model's graphs and what comes out of them, as its card states it."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bundle.maps import DENSE_AXES, map_key, map_quantities, nested_mask_name
from bundle.rows import BoundTensor, joined_dimensions
from bundle.v1 import bundle_pb2
from bundle.values import Array
from bundle.wire import DTYPES
from export.errors import ExportError
from limelight.v1 import attention_pb2, model_pb2
from models.cards.card import Card

BATCH = "batch"
STEP = "step"

# The name of an axis whose size varies, or the size of one that is fixed.
AxisSize = str | int
Axes = tuple[AxisSize, ...]
# Weights that a map must have at its largest to be computed only where it is asked for. An If takes some 10 us and 8 kB
# of the graph: below this size, computing the map and holding it costs less.
_SWITCHED_FROM = 2**16


@dataclass(frozen=True)
class Port:
    """A tensor that goes into a graph or comes out of it; `axes` has the batch in front, or what instances are joined
    along.
    """

    name: str
    dtype: np.dtype[Any]
    axes: Axes

    def sizes(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Give the shape that it has where the varying axes have these sizes."""
        return tuple(axis if isinstance(axis, int) else sizes[axis] for axis in self.axes)


def input_tensors(card: Card) -> list[BoundTensor]:
    """List the tensors that the inputs are turned into; the target, which only forces what is put out, is left out.

    Raises: ExportError for an input that may be left out, which no graph can do without.
    """
    target = card.generation.target_tensor if card.generation else ""
    tensors, bound = [], card.bound()
    for each in card.description.inputs:
        kept = [bound[tensor.name] for tensor in each.tensors if not target or tensor.name != target]
        if kept and each.optional:
            raise ExportError(f"the input {each.name!r} is optional, but the graphs cannot do without it")
        tensors += kept
    return tensors


def input_ports(card: Card) -> list[Port]:
    """List what a graph may take: each input tensor with what is derived from it, then the noise."""
    ports = []
    for tensor in input_tensors(card):
        ports.append(_tensor_port(tensor.description, joined=tensor.joined))
        if tensor.mask:
            ports.append(Port(tensor.mask, np.dtype(np.bool_), ports[-1].axes))
        if tensor.instance_index:
            ports.append(Port(tensor.instance_index, np.dtype(np.int64), ports[-1].axes[:1]))
    ports += [_tensor_port(noise.tensor) for noise in card.noise]
    return ports


def output_ports(card: Card) -> list[Port]:
    """List what a model that answers in one pass puts out: its outputs, its maps, and the ends of their edges.

    Raises: ExportError where two of them, or one and an input, have the same name.
    """
    joined = joined_axes(card)
    outputs = []
    for each in card.description.outputs:
        axes = tuple(map(_axis, each.dimensions))
        whole = axes if axes and axes[0] in joined else (BATCH, *axes)
        outputs.append(Port(each.name, DTYPES[each.data_type], whole))
    maps = [
        replace(map_port(card, each), name=map_key(each.name, quantity))
        for each, quantity in map_quantities(card.description.maps)
    ]
    edges = {
        name: map_port(card, each).axes[:1] for each in card.description.maps for name in card.edges.get(each.name, ())
    }
    ports = [*outputs, *maps, *(Port(name, np.dtype(np.int64), axes) for name, axes in edges.items())]
    names = [port.name for port in (*ports, *input_ports(card))]
    if clash := {name for name in names if names.count(name) > 1}:
        raise ExportError(f"{sorted(clash)} are names of two tensors: of outputs, maps, their edges, or inputs")
    return ports


def map_keys(card: Card) -> list[str]:
    """Name every quantity of every map, as the model returns them and a graph puts them out."""
    return [map_key(each.name, quantity) for each, quantity in map_quantities(card.description.maps)]


def edge_indices(card: Card) -> list[str]:
    """Name the tensors that say which query and key each edge of a map belongs to, each once."""
    return list(dict.fromkeys(name for each in card.description.maps for name in card.edges.get(each.name, ())))


def joined_axes(card: Card) -> frozenset[str]:
    """Name the axes along which the instances of a batch are joined."""
    return joined_dimensions(card.bound().values())


def map_binding(card: Card, name: str, quantity: attention_pb2.Quantity, graph: str) -> bundle_pb2.MapBinding:
    """Say where a graph puts out one quantity of a map."""
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
    """Give the axes of the tensor in which a graph puts out a map; one of a single step has no query axis.

    Raises: ExportError where the card does not say.
    """
    axes = card.map_axes.get(name)
    if not axes or axes[0] not in (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_EDGE):
        raise ExportError(f"the card does not give the axes of the map {name}, batch or edge first")
    queries = {each.name: each.query_labels for each in card.description.maps}.get(name)
    kinds = {each.name: each.kind for each in card.description.label_sets}
    if card.generation is None or kinds.get(queries or "") != attention_pb2.LABEL_KIND_OUTPUT_STEPS:
        return tuple(axes)
    return tuple(axis for axis in axes if axis != bundle_pb2.AXIS_QUERY)


def map_port(card: Card, description: model_pb2.MapDescription) -> Port:
    """Describe the output that holds a map."""
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
    return Port(
        description.name,
        np.dtype(np.float32),
        tuple(sizes[axis] for axis in map_axes(card, description.name)),
    )


def maxima(card: Card) -> dict[str, int]:
    """Give the largest size of every axis that varies, 0 where there is no limit."""
    largest: dict[str, int] = {}
    for dimension in _dimensions(card):
        if not dimension.size:
            stated = [each for each in (largest.get(dimension.name, 0), dimension.maximum) if each]
            largest[dimension.name] = min(stated, default=0)
    return largest


def batch_maxima(card: Card) -> dict[str, int]:
    """Give the largest size of every axis that varies in a batch: no limit where instances are joined."""
    joined = joined_axes(card)
    return {axis: 0 if axis in joined else most for axis, most in maxima(card).items()}


def longest(card: Card) -> int:
    """Give the most places that an axis can have in a batch, 0 where there is no limit."""
    sizes = [*batch_maxima(card).values(), *([card.generation.max_new_tokens] if card.generation else [])]
    return max(sizes, default=1) if all(sizes) else 0


def switchable(card: Card) -> dict[str, Axes]:
    """Name the maps that are worth computing only where they are asked for, with their axes: [batch, head, query, key].

    A model that generates steps through many small ones, and needs them all.
    """
    found = {}
    for each in card.description.maps if card.generation is None else ():
        if map_axes(card, each.name) == DENSE_AXES and each.form == model_pb2.MAP_FORM_DENSE:
            port = map_port(card, each)
            sizes = [axis if isinstance(axis, int) else maxima(card)[axis] for axis in port.axes[1:]]
            if not all(sizes) or math.prod(sizes) >= _SWITCHED_FROM:
                found[each.name] = port.axes
    return found


def check_rank(port: Port, array: Array) -> None:
    """Raise ExportError where a tensor has another number of axes than the card states."""
    if array.ndim != len(port.axes):
        axes = ", ".join(str(axis) for axis in port.axes)
        raise ExportError(f"{port.name} has shape {list(array.shape)}; the card states [{axes}]")


def check_port(port: Port, array: Array, sizes: Mapping[str, int]) -> None:
    """Raise ExportError where a tensor is not what the card states at these sizes."""
    if array.dtype != port.dtype:
        raise ExportError(f"{port.name} is {array.dtype}; the card states {port.dtype}")
    if array.shape != port.sizes(sizes):
        axes = ", ".join(str(axis) for axis in port.axes)
        raise ExportError(
            f"{port.name} has shape {list(array.shape)}; the card states [{axes}], here {list(port.sizes(sizes))}"
        )


def _dimensions(card: Card) -> Iterator[model_pb2.Dimension]:
    for tensor in input_tensors(card):
        yield from tensor.description.dimensions
    for noise in card.noise:
        yield from noise.tensor.dimensions


def _tensor_port(tensor: model_pb2.TensorDescription, *, joined: bool = False) -> Port:
    axes = tuple(map(_axis, tensor.dimensions))
    return Port(tensor.name, DTYPES[tensor.data_type], axes if joined else (BATCH, *axes))


def _edge_axis(card: Card, description: model_pb2.MapDescription) -> AxisSize:
    """Give the axis of the edges that are read: those of a tensor that indexes what the queries are."""
    queries = _label_axis(card, description.query_labels)
    for tensor in input_tensors(card):
        if tensor.indexes == queries:
            return _axis(tensor.description.dimensions[0])
    raise ExportError(f"the map {description.name} is put out as edges, but no input tensor indexes its queries")


def _axis(dimension: model_pb2.Dimension) -> AxisSize:
    return dimension.size or dimension.name


def _label_axis(card: Card, name: str) -> AxisSize:
    """Give the axis that a label set counts."""
    labels = next((each for each in card.description.label_sets if each.name == name), None)
    if labels is None:
        raise ExportError(f"the label set {name!r} is not described")
    if labels.HasField("grid"):
        return len(labels.grid.leading) + labels.grid.rows * labels.grid.columns
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
