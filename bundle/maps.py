"""From a graph's output to the map of one instance: cut to its own sizes, in the form that the description states."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bundle.rows import Labels, Row
from bundle.v1 import bundle_pb2
from bundle.values import Array
from limelight.v1 import attention_pb2, model_pb2

_ORDER = (
    bundle_pb2.AXIS_BATCH,
    bundle_pb2.AXIS_HEAD,
    bundle_pb2.AXIS_QUERY,
    bundle_pb2.AXIS_KEY,
    bundle_pb2.AXIS_FEATURE,
)


@dataclass(frozen=True)
class MapWeights:
    """The weights of one map for one instance.

    Dense: `weights` [head, query, key] or [head, query, key, feature], no indices.
    Edges: `weights` [head, edge] with `query_index` and `key_index` INT32 [edge], in order of query, then key.
    """

    weights: Array
    query_index: Array | None = None
    key_index: Array | None = None


def canonical(array: Array, axes: list[int] | tuple[int, ...]) -> Array:
    """Bring a graph's output to [batch, head, query, key] (+ feature); a head or query axis it lacks has size 1."""
    present = [axis for axis in _ORDER if axis in axes]
    array = np.transpose(array, [list(axes).index(axis) for axis in present])
    for place, axis in enumerate(_ORDER[:4]):
        if axis not in axes:
            array = np.expand_dims(array, place)
    return array


def cut(
    array: Array, description: model_pb2.MapDescription, labels: Mapping[str, Labels], row: Row, nested_mask: str = ""
) -> MapWeights:
    """Cut one row's weights to the sizes that its labels state.

    array: [head, query, key] or [head, query, key, feature], padded.
    nested_mask: for edges, the mask [query, key of that query]; its true places, in order, are the key label set's.
    """
    queries = labels[description.query_labels].size
    if description.form == model_pb2.MAP_FORM_EDGES:
        mask = np.asarray(row.tensors[nested_mask], dtype=bool)
        query_index, position = np.nonzero(mask)
        weights = array[:, query_index, position]
        key_index = np.arange(len(query_index), dtype=np.int32)
        return MapWeights(np.ascontiguousarray(weights), query_index.astype(np.int32), key_index)
    keys = labels[description.key_labels].size
    return MapWeights(np.ascontiguousarray(array[:, :queries, :keys]))


def nested_mask_name(description: model_pb2.ModelDescription, map_description: model_pb2.MapDescription) -> str:
    """Name the mask tensor that tells which keys belong to which query; empty for a dense map."""
    if map_description.form != model_pb2.MAP_FORM_EDGES:
        return ""
    labels = next(each for each in description.label_sets if each.name == map_description.key_labels)
    tensors = (tensor for each in description.inputs for tensor in each.tensors)
    return next(tensor.mask for tensor in tensors if tensor.name == labels.tensor)


def fixed_labels(description: model_pb2.ModelDescription) -> dict[str, Labels]:
    """Label sets that are the same for every instance: grids, classes, hops, latents, a single entry."""
    fixed: dict[str, Labels] = {}
    for each in description.label_sets:
        if each.HasField("grid"):
            size = len(each.grid.leading) + each.grid.rows * each.grid.columns
            fixed[each.name] = Labels(each.name, each.kind, size, grid=each.grid)
        elif each.kind == attention_pb2.LABEL_KIND_ONE:
            fixed[each.name] = Labels(each.name, each.kind, 1, names=tuple(each.names))
        elif each.names:
            fixed[each.name] = Labels(each.name, each.kind, len(each.names), names=tuple(each.names))
    return fixed
