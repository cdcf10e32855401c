"""Attention maps: weights as NumPy arrays, with what stands along their axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limelight.enums import name_of
from limelight.labels import LabelSet
from limelight.tensors import to_array
from limelight.v1 import attention_pb2


@dataclass(frozen=True, eq=False)
class Edges:
    """Which query attends to which key, one entry an edge: positions along the map's own `query` and `key` axes."""

    query_index: NDArray[np.int64]
    key_index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.query_index)


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """The weights of one attention for one instance.

    `weights` is float32, however it was sent: [head, query, key], or [head, edge] where `edges` is set, with a last
    axis `feature` for multi-dimensional attention. `query` and `key` label exactly the entries that are here: after a
    selection they are parts of the model's label sets, and their `indices` say which.
    """

    name: str
    """Dotted and stable: "encoder.3.self"."""
    stack: str
    layer: int | None
    kind: str
    """"self", "cross", "pool", "co", "memory" or "graph"."""
    normalised: bool
    """True where the weights of a query sum to 1 over all its keys."""
    signed: bool
    """True where weights can be negative."""
    heads: tuple[int, ...]
    """Indices of the heads that are here; empty after a reduction over heads."""
    weights: NDArray[np.float32]
    query: LabelSet
    key: LabelSet
    edges: Edges | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes of `weights`."""
        axes = ("head", "edge") if self.edges else ("head", "query", "key")
        return (*axes, "feature") if self.weights.ndim > len(axes) else axes

    def dense(self) -> NDArray[np.float32]:
        """The weights as [head, query, key] (and feature). Where no edge is, they are 0."""
        if self.edges is None:
            return self.weights
        shape = (self.weights.shape[0], len(self.query), len(self.key), *self.weights.shape[2:])
        dense = np.zeros(shape, dtype=np.float32)
        dense[:, self.edges.query_index, self.edges.key_index] = self.weights
        return dense

    def head(self, index: int) -> NDArray[np.float32]:
        """The weights [query, key] of the model's head `index`, from 0. After a reduction there is head 0 alone.

        Raises: IndexError where that head is not here.
        """
        present = self.heads or (0,)
        if index not in present:
            raise IndexError(f"map {self.name!r} has the heads {list(present)} here, not {index}")
        weights: NDArray[np.float32] = self.dense()[present.index(index)]
        return weights

    def mean_over_heads(self) -> NDArray[np.float32]:
        """The mean over heads (and features) [query, key]."""
        dense = self.dense()
        if dense.ndim == 4:
            dense = dense.mean(axis=3)
        mean: NDArray[np.float32] = dense.mean(axis=0)
        return mean


def read_map(
    message: attention_pb2.AttentionMap, label_sets: Mapping[str, LabelSet], *, query: LabelSet | None = None
) -> AttentionMap:
    """A map from an answer. `query` labels its query axis where no label set of the answer does (a stream's token).

    Raises: ValueError where its parts do not fit each other.
    """
    weights = to_array(message.weights)
    is_edges = message.HasField("query_index")
    queries = query or _axis(message.query_labels, label_sets, message.queries)
    keys = _axis(message.key_labels, label_sets, message.keys)
    if is_edges:
        query_index = to_array(message.query_index).astype(np.int64)
        key_index = to_array(message.key_index).astype(np.int64)
        if weights.ndim < 2 or not weights.shape[1] == len(query_index) == len(key_index):
            raise ValueError(f"map {message.name!r} has weights {list(weights.shape)} for {len(query_index)} edges")
        edges = Edges(_positions(query_index, queries), _positions(key_index, keys))
    else:
        if weights.ndim < 3:
            raise ValueError(f"map {message.name!r} has weights of {weights.ndim} axes")
        if weights.shape[1:3] != (len(queries), len(keys)):
            axes = f"{len(queries)} of {queries.name!r} and {len(keys)} of {keys.name!r}"
            raise ValueError(f"map {message.name!r} has weights {list(weights.shape)} for {axes}")
        edges = None
    if message.HasField("scales"):
        weights = _scaled(weights, to_array(message.scales), len(queries), edges)
    weights = weights.astype(np.float32, copy=False)
    weights.flags.writeable = False
    return AttentionMap(
        name=message.name,
        stack=message.stack,
        layer=message.layer if message.HasField("layer") else None,
        kind=name_of(attention_pb2.MapKind, message.kind),
        normalised=message.normalised,
        signed=message.signed,
        heads=tuple(message.heads),
        weights=weights,
        query=queries,
        key=keys,
        edges=edges,
    )


def _axis(name: str, label_sets: Mapping[str, LabelSet], chosen: Sequence[int]) -> LabelSet:
    """The labels of an axis: the entries `chosen` of a label set, all where there are none."""
    labels = label_sets.get(name)
    if labels is None:
        raise ValueError(f"an axis is labelled by {name!r}, which is not among {sorted(label_sets)}")
    if not chosen:
        return labels
    if not 0 <= min(chosen) <= max(chosen) < len(labels):
        raise ValueError(f"entries {list(chosen)} of label set {name!r}, which has {len(labels)}")
    return labels.take(chosen)


def _positions(index: NDArray[np.int64], labels: LabelSet) -> NDArray[np.int64]:
    """Indices into the whole label set to positions along the axis that is here."""
    if labels.indices is not None:
        place = {entry: position for position, entry in enumerate(labels.indices)}
        try:
            index = np.array([place[entry] for entry in index.tolist()], dtype=np.int64)
        except KeyError as error:
            raise ValueError(f"an edge to entry {error} of {labels.name!r}, which is not selected") from None
    elif index.size and not 0 <= index.min() <= index.max() < len(labels):
        raise ValueError(f"an edge to entry {index.max()} of {labels.name!r}, which has {len(labels)}")
    return index


def _scaled(
    weights: NDArray[np.uint8], scales: NDArray[np.float32], queries: int, edges: Edges | None
) -> NDArray[np.float32]:
    """Weights of uint8 times the scale of their row. Shapes: scales [head, query]."""
    if scales.shape != (len(weights), queries):
        raise ValueError(f"scales {list(scales.shape)} for {len(weights)} heads and {queries} queries")
    rows = scales[:, edges.query_index] if edges else scales[:, :, None]
    rows = rows.reshape(*rows.shape, *(1,) * (weights.ndim - rows.ndim))
    scaled: NDArray[np.float32] = weights.astype(np.float32) * rows
    return scaled
