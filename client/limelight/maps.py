"""Attention maps: weights as NumPy arrays, with labels along their axes."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from limelight import archive, notebook, tables
from limelight.base.enums import name_of
from limelight.base.suggestions import similar
from limelight.base.tensors import to_array
from limelight.labels import LabelSet
from limelight.records import SHORT, Record, as_array, json_types
from limelight.v1 import attention_pb2, values_pb2
from limelight.words import words_of

if TYPE_CHECKING:
    import pandas
    import xarray

# The score of a position without possible attention, in single and half precision.
_IMPOSSIBLE = np.finfo(np.float32).min
_IMPOSSIBLE_HALF = float(np.finfo(np.float16).min)
_NO_KEY = -1
MOST_VALUES = 2**28
"""Of a matrix that is made of fewer values: of edges, or of the largest of each row."""


@dataclass(frozen=True, eq=False, repr=False)
class Edges(Record):
    """Query and key of each edge: positions along the map's own `query` and `key` axes."""

    _array = "`query_index` and `key_index` are"

    query_index: NDArray[np.int64]
    key_index: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.query_index)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AttentionMap(Record):
    """The weights of one attention map for one instance.

    `weights` is float32, whatever the encoding: [head, query, key]; [head, edge] if `edges` is set; [head, query,
    place] if `key_index` is set; with a last axis `feature` for multi-dimensional attention. Values are [head, key,
    feature]. `query` and `key` label the returned entries: after a selection they are parts of the model's label sets,
    and their `indices` refer to the whole sets. `numpy.asarray(map)` is `map.dense()`, of values `map.weights`.
    """

    name: str
    """Dotted, stable name: "encoder.3.self"."""
    stack: str = ""
    layer: int | None = None
    kind: str
    """"self", "cross", "pool", "co", "memory" or "graph"."""
    quantity: str = "weights"
    """"weights", "scores" (before alignment; the lowest float32 where attention is not possible), "norms" of the
    weighted, transformed values, or "values", the vectors that weights multiply."""
    normalised: bool = False
    """True if the values of a query are known to sum to 1 over all its keys, omitted keys included."""
    signed: bool = False
    """True if values can be negative."""
    heads: tuple[int, ...]
    """Indices of the returned or reduced heads."""
    head_reduction: str | None = None
    """"mean" or "max" over `heads`, which leaves one entry on the head axis; None without reduction."""
    weights: NDArray[np.float32]
    query: LabelSet
    """Of values, which are the same for all queries, one entry without a name."""
    key: LabelSet
    edges: Edges | None = None
    key_index: NDArray[np.int64] | None = None
    """[head, query, place], for a map cut by `top_k`: position along `key` of each weight, ascending; -1 where a
    query has no more weights. None for other maps."""
    left_out: NDArray[np.float32] | None = None
    """[head, query]: sum of the weights of each row that `top_k` or `hide_special` omitted; None for other maps."""
    head_labels: LabelSet | None = None
    """Labels of the model's heads, which `heads` indexes; None if heads are only numbered."""
    feature_labels: LabelSet | None = None
    """Labels of the feature axis; None if there is none, or features are only numbered."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes of `weights`."""
        if self.key_index is not None:
            return ("head", "query", "place")
        if self.quantity == "values":
            return ("head", "key", "feature")
        axes = ("head", "query", "key") if self.edges is None else ("head", "edge")
        return (*axes, "feature") if self.weights.ndim > len(axes) else axes

    @property
    def is_nested(self) -> bool:
        """True if each key is a part of a query, such as a word of a sentence."""
        return bool(self.key.parent) and self.key.parent == self.query.name and len(self.key.parents) > 0

    def __repr__(self) -> str:
        return f"<AttentionMap {self.summary}>"

    def _repr_html_(self) -> str:
        return notebook.page([self], fold_heads=True)

    @property
    def summary(self) -> str:
        """Name, shape and axes in one line."""
        shape = ", ".join(f"{axis} {size}" for axis, size in zip(self.axes, self.weights.shape, strict=True))
        heads = f", {self.head_reduction} of {len(self.heads)} heads" if self.head_reduction else ""
        name, query, key = (SHORT.repr(each) for each in (self.name, self.query.name, self.key.name))
        return f"{name}: {self.quantity} [{shape}], {f'{query} to ' if self.query.name else 'of '}{key}{heads}"

    def to_dict(self) -> dict[str, Any]:
        """Return the map as JSON types: `weights` nested by `axes`, and indices into the whole label sets."""
        edges, key_index = None, None
        if self.edges is not None:
            edges = {
                "query_index": _whole_indices(self.edges.query_index, self.query),
                "key_index": _whole_indices(self.edges.key_index, self.key),
            }
        if self.key_index is not None:
            key_index = _whole_indices(self.key_index, self.key)
        return {
            "name": self.name,
            "stack": self.stack,
            "layer": self.layer,
            "kind": self.kind,
            "quantity": self.quantity,
            "normalised": self.normalised,
            "signed": self.signed,
            "query": self.query.name,
            "key": self.key.name,
            "head_labels": self.head_labels.name if self.head_labels else None,
            "feature_labels": self.feature_labels.name if self.feature_labels else None,
            "heads": list(self.heads),
            "head_reduction": self.head_reduction,
            "queries": json_types(self.query.indices),
            "keys": json_types(self.key.indices),
            "axes": list(self.axes),
            "shape": list(self.weights.shape),
            "edges": edges,
            "key_index": key_index,
            "weights": self.weights.tolist(),
            "left_out": json_types(self.left_out),
        }

    def to_pandas(self) -> "pandas.DataFrame":
        """Return a pandas DataFrame with a row for each value that the map has.

        Columns: map, layer, head (or its reduction), query, query_label, key, key_label, feature (if there are
        several), weight (or score, norm, value). `query` and `key` are indices into the whole label sets.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        return tables.frame([self])

    def to_xarray(self) -> "xarray.DataArray":
        """Return an xarray DataArray [head, query, key] (and feature), NaN where the map has no value.

        Coordinates are the indices of heads, queries and keys, and their labels: `query_label`, `key_label`.

        Raises:
            ModuleNotFoundError: xarray is not installed.
        """
        return tables.array(self)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the map into a file that `limelight.load` reads: NumPy's `.npz`, without pickles."""
        archive.save(self, file)

    def dense(self, *, absent: float = 0.0) -> NDArray[np.float32]:
        """Return the weights as [head, query, key] (and feature), with `absent` where there is none.

        Values have one query: [head, 1, key, feature].

        Raises:
            ValueError: the map is of edges, or cut by `top_k`, and its matrix would have more than 2^28 values.
        """
        if self.quantity == "values":
            return self.weights[:, None]
        if self.edges is None and self.key_index is None:
            return self.weights
        features = self.weights.shape[2:] if self.edges is not None else ()
        dense = np.full(self._matrix(*features), absent, np.float32)
        self._lay_out(self.weights, dense)
        return dense

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return as_array(self.weights if self.quantity == "values" else self.dense(), dtype, copy)

    def present(self) -> NDArray[np.bool_]:
        """Return bool [head, query, key]: True where the map has a value.

        False where there is no edge (in the model, or after `top_k`), and for scores where attention is not possible.
        For a multi-dimensional map: True where any feature has a value.
        """
        shape = self.dense().shape if self.quantity == "values" else self.weights.shape
        there: NDArray[np.bool_] = np.ones(shape, np.bool_)
        if self.quantity == "scores":
            there = np.greater(self.weights, _IMPOSSIBLE)
        if there.ndim > (3 if self.edges is None else 2):
            there = np.logical_or.reduce(there, axis=-1)
        if self.edges is None and self.key_index is None:
            return there
        dense = np.zeros(self._matrix(), np.bool_)
        self._lay_out(there, dense)
        return dense

    def _matrix(self, *features: int) -> tuple[int, ...]:
        """Return the shape of the whole matrix. Raises ValueError for one that is too large to be made."""
        shape = (len(self.weights), len(self.query), len(self.key), *features)
        if math.prod(shape) > MOST_VALUES:
            raise ValueError(f"map {self.name!r} as a matrix {list(shape)} has more than {MOST_VALUES} values")
        return shape

    def _lay_out(self, values: NDArray[Any], dense: NDArray[Any]) -> None:
        """Write the values of a map of edges, or cut by `top_k`, to their positions."""
        if self.edges is not None:
            dense[:, self.edges.query_index, self.edges.key_index] = values
        elif self.key_index is not None:
            head, query, place = np.nonzero(self.key_index >= 0)
            dense[head, query, self.key_index[head, query, place]] = values[head, query, place]

    def head(self, index: int) -> NDArray[np.float32]:
        """Return the weights [query, key] (and feature), or values [key, feature], of head `index`, from 0.

        Raises:
            IndexError: the head was not returned, or was reduced with others.
        """
        if self.head_reduction is not None and self.heads != (index,):
            raise IndexError(f"map {self.name!r} has the {self.head_reduction} of the heads {list(self.heads)} alone")
        if index not in self.heads:
            raise IndexError(f"map {self.name!r} has the heads {list(self.heads)} here, not {index}")
        weights: NDArray[np.float32] = np.asarray(self)[self.heads.index(index)]
        return weights

    def by_words(self, *, special_queries: bool = True, special_keys: bool = True) -> "AttentionMap":
        """Return the map of words in place of their pieces: sums over keys, means over queries.

        An axis whose model does not state words stays as it is.

        Args:
            special_queries, special_keys: whether to keep special tokens; `left_out` has the sums of such keys.
        Raises:
            ValueError: the map is of edges, of scores, of values, or cut by `top_k`.
        """
        if self.quantity == "scores":
            raise ValueError(f"map {self.name!r} cannot be joined by words: it is of scores")
        self._check_whole("joined by words")
        query = words_of(self.query, special=special_queries)
        key = words_of(self.key, special=special_keys)
        left_out = None if special_keys else query.mean(self._special_sums(), 1)
        weights = query.mean(key.sum(self.weights, 2), 1)
        weights.flags.writeable = False
        return replace(self, weights=weights, query=query.labels, key=key.labels, left_out=left_out)

    def hide_special(self, *, queries: bool = True) -> "AttentionMap":
        """Return the map without special tokens, and without leading entries of a grid such as a class token.

        `left_out` [head, query] has the sums of the weights of hidden keys, unless the map is of scores.

        Args:
            queries: whether to hide special queries, too.
        Raises:
            ValueError: the map is of edges, of values, or cut by `top_k`.
        """
        self._check_whole("shown without special tokens")
        rows = ~self.query.special if queries else np.ones(len(self.query), np.bool_)
        weights = self.weights[:, rows][:, :, ~self.key.special]
        weights.flags.writeable = False
        return replace(
            self,
            weights=weights,
            query=self.query.without_special() if queries else self.query,
            key=self.key.without_special(),
            left_out=None if self.quantity == "scores" else self._special_sums()[:, rows],
        )

    def _check_whole(self, what: str) -> None:
        if self.edges is not None or self.key_index is not None or self.quantity == "values":
            raise ValueError(f"map {self.name!r} cannot be {what}: it is of edges, of values, or cut by top_k")

    def _special_sums(self) -> NDArray[np.float32]:
        """Sum the weights of special keys: [head, query]; features are averaged."""
        sums: NDArray[np.float32] = self.weights[:, :, self.key.special].sum(axis=2)
        return sums.mean(axis=2) if sums.ndim == 3 else sums

    def without_features(self, *, absent: float = 0.0) -> NDArray[np.float32]:
        """Return `dense()` with the mean of each weight's features, or the length of each value: [head, query, key]."""
        dense = self.dense(absent=absent)
        if dense.ndim == 4:
            dense = np.linalg.norm(dense, axis=3) if self.quantity == "values" else dense.mean(axis=3)
        return dense

    def mean_over_heads(self) -> NDArray[np.float32]:
        """Return the mean of `without_features()` over heads, [query, key]; 0 where there is no value."""
        mean: NDArray[np.float32] = self.without_features().mean(axis=0)
        return mean


def find(maps: Sequence[AttentionMap], name: str) -> AttentionMap:
    """Return the map of a name. Raises KeyError, which lists the names there are."""
    for each in maps:
        if each.name == name:
            return each
    names = [each.name for each in maps]
    raise KeyError(f"no map {name!r} in this answer; it has {', '.join(names) or 'none'}{similar(str(name), names)}")


def _whole_indices(positions: NDArray[np.int64], labels: LabelSet) -> Any:
    """Convert positions along an axis to indices into its whole label set; negative positions stay."""
    if labels.indices is None:
        return positions.tolist()
    return np.where(positions < 0, positions, np.asarray(labels.indices, np.int64)[positions]).tolist()


def read_map(
    message: attention_pb2.AttentionMap,
    label_sets: Mapping[str, LabelSet],
    *,
    query: LabelSet | None = None,
    key: LabelSet | None = None,
) -> AttentionMap:
    """Read a map from a response.

    Args:
        query, key: labels of axes that the message does not state (a part of a stream).
    Raises:
        ValueError: the parts of the message are inconsistent.
    """
    weights = to_array(message.weights)
    is_values = message.quantity == attention_pb2.QUANTITY_VALUES
    if is_values:
        query = LabelSet("", "one", ("",))
    queries = axis_labels(message.query_labels, label_sets, message.queries) if query is None else query
    keys = axis_labels(message.key_labels, label_sets, message.keys) if key is None else key
    edges, places = None, None
    if is_values:
        if weights.ndim != 3 or weights.shape[1] != len(keys):
            raise ValueError(f"map {message.name!r} has values {list(weights.shape)} for {len(keys)} of {keys.name!r}")
    elif message.HasField("query_index"):
        query_index, key_index = _indices(message.query_index), _indices(message.key_index)
        if weights.ndim not in (2, 3) or not weights.shape[1:2] == query_index.shape == key_index.shape:
            raise ValueError(f"map {message.name!r} has weights {list(weights.shape)} for {query_index.size} edges")
        edges = Edges(_positions(query_index, queries), _positions(key_index, keys))
    elif message.HasField("key_index"):
        places = _indices(message.key_index)
        if weights.ndim != 3 or weights.shape != places.shape or weights.shape[1] != len(queries):
            shapes = f"weights {list(weights.shape)} at keys {list(places.shape)}"
            raise ValueError(f"map {message.name!r} has {shapes} for {len(queries)} of {queries.name!r}")
        there = places != _NO_KEY
        places[there] = _positions(places[there], keys)
    else:
        if weights.ndim not in (3, 4):
            raise ValueError(f"map {message.name!r} has weights of {weights.ndim} axes")
        if weights.shape[1:3] != (len(queries), len(keys)):
            axes = f"{len(queries)} of {queries.name!r} and {len(keys)} of {keys.name!r}"
            raise ValueError(f"map {message.name!r} has weights {list(weights.shape)} for {axes}")
    reduction = None
    if message.head_reduction:
        reduction = name_of(attention_pb2.HeadReduction, message.head_reduction)
    if len(weights) != (1 if reduction else len(message.heads)):
        heads = SHORT.repr(list(message.heads))
        raise ValueError(f"map {message.name!r} has weights {list(weights.shape)} for the heads {heads}")
    head_labels, feature_labels = label_sets.get(message.head_labels), label_sets.get(message.feature_labels)
    if head_labels is not None and not all(0 <= each < len(head_labels) for each in message.heads):
        raise ValueError(f"map {message.name!r} has heads beyond the {len(head_labels)} of {head_labels.name!r}")
    features = weights.shape[2 if edges is not None or is_values else 3 :]
    if feature_labels is not None and features != (len(feature_labels),):
        raise ValueError(f"map {message.name!r} has features {list(features)} for {len(feature_labels)} labels")
    quantity = name_of(attention_pb2.Quantity, message.quantity) if message.quantity else "weights"
    return AttentionMap(
        name=message.name,
        stack=message.stack,
        layer=message.layer if message.HasField("layer") else None,
        kind=name_of(attention_pb2.MapKind, message.kind),
        quantity=quantity,
        normalised=message.normalised,
        signed=message.signed,
        heads=tuple(message.heads),
        head_reduction=reduction,
        weights=_numbers(message, weights, quantity, queries, edges),
        query=queries,
        key=keys,
        edges=edges,
        key_index=places,
        left_out=_left_out(message, len(weights), len(queries)),
        head_labels=head_labels,
        feature_labels=feature_labels,
    )


def axis_labels(name: str, label_sets: Mapping[str, LabelSet], chosen: Sequence[int]) -> LabelSet:
    """Return the labels of an axis: the entries `chosen` of a label set, or all."""
    labels = label_sets.get(name)
    if labels is None:
        raise ValueError(f"an axis is labelled by {name!r}, which is none of the {len(label_sets)} label sets")
    if not chosen:
        return labels
    if not 0 <= min(chosen) <= max(chosen) < len(labels):
        raise ValueError(f"entries {min(chosen)} to {max(chosen)} of label set {name!r}, which has {len(labels)}")
    return labels.take(chosen)


def _indices(tensor: values_pb2.Tensor) -> NDArray[np.int64]:
    """Read indices of any whole type."""
    array = to_array(tensor)
    if array.dtype.kind not in "iu":
        raise ValueError(f"indices of the type {array.dtype}")
    return array.astype(np.int64)


def _positions(index: NDArray[np.int64], labels: LabelSet) -> NDArray[np.int64]:
    """Convert indices into the whole label set to positions along the returned axis."""
    if labels.indices is not None:
        place = {entry: position for position, entry in enumerate(labels.indices)}
        try:
            index = np.array([place[entry] for entry in index.tolist()], dtype=np.int64)
        except KeyError as error:
            raise ValueError(f"an edge to entry {error} of {labels.name!r}, which is not selected") from None
    elif index.size and not 0 <= index.min() <= index.max() < len(labels):
        raise ValueError(f"an edge to entry {index.max()} of {labels.name!r}, which has {len(labels)}")
    return index


def _numbers(
    message: attention_pb2.AttentionMap,
    sent: NDArray[np.generic],
    quantity: str,
    queries: LabelSet,
    edges: Edges | None,
) -> NDArray[np.float32]:
    """Decode the values of a map to read-only float32."""
    weights = sent.astype(np.float32, copy=False)
    if message.HasField("scales"):
        weights = _scaled(weights, to_array(message.scales), len(queries), edges)
    elif quantity == "scores" and sent.dtype == np.float16:
        weights[weights <= _IMPOSSIBLE_HALF] = _IMPOSSIBLE
    weights.flags.writeable = False
    return weights


def _scaled(
    weights: NDArray[np.float32], scales: NDArray[np.float32], queries: int, edges: Edges | None
) -> NDArray[np.float32]:
    """Decode uint8 weights with the scale of each row. Shapes: scales [head, query]."""
    if scales.shape != (len(weights), queries):
        raise ValueError(f"scales {list(scales.shape)} for {len(weights)} heads and {queries} queries")
    rows = scales[:, :, None] if edges is None else scales[:, edges.query_index]
    rows = rows.reshape(*rows.shape, *(1,) * (weights.ndim - rows.ndim))
    scaled: NDArray[np.float32] = weights * rows
    return scaled


def _left_out(message: attention_pb2.AttentionMap, heads: int, queries: int) -> NDArray[np.float32] | None:
    if not message.HasField("left_out"):
        return None
    left_out = to_array(message.left_out)
    if left_out.shape != (heads, queries):
        raise ValueError(
            f"map {message.name!r} left out {list(left_out.shape)} for {heads} heads and {queries} queries"
        )
    return left_out.astype(np.float32, copy=False)
