"""Conversion of graph outputs to the maps of one instance, cut to its sizes, in the described form."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import BundleError
from limelight_bundle.names import quantity_key
from limelight_bundle.rows import BoundTensor, Labels, Row, offsets, tensor_descriptions
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array

WEIGHTS = attention_pb2.QUANTITY_WEIGHTS
SCORES = attention_pb2.QUANTITY_SCORES
NORMS = attention_pb2.QUANTITY_NORMS
VALUES = attention_pb2.QUANTITY_VALUES
DENSE_AXES = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY)
VALUE_AXES = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_KEY, bundle_pb2.AXIS_FEATURE)
_ORDER = (*DENSE_AXES, bundle_pb2.AXIS_FEATURE)
_EDGES = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_EDGE, bundle_pb2.AXIS_FEATURE)


@dataclass(frozen=True)
class MapPart:
    """A requested part of a map: ascending indices of heads and queries; None for all.

    Attributes:
        projected: projections suffice, if the model outputs them.
        half: values rounded to float16 suffice.
    """

    heads: Array | None = None
    queries: Array | None = None
    projected: bool = field(default=False, kw_only=True)
    half: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class MapWeights:
    """The weights (or another quantity) of one map for one instance.

    Dense: `weights` [head, query, key] or [head, query, key, feature], without indices.
    Edges: `weights` [head, edge] with `query_index` and `key_index` INT32 [edge], in order of query, then key.
    Values: `weights` [head, 1, key, feature].

    Attributes:
        heads, queries: for a part of a dense map, the ascending indices of its axes; None for all.
    """

    weights: Array
    query_index: Array | None = None
    key_index: Array | None = None
    heads: Array | None = None
    queries: Array | None = None

    def has_edges_of(self, other: "MapWeights") -> bool:
        """Return whether both maps are dense, or have the same edges."""
        pairs = ((self.query_index, other.query_index), (self.key_index, other.key_index))
        return all(
            ours is theirs if ours is None or theirs is None else np.array_equal(ours, theirs) for ours, theirs in pairs
        )


@dataclass(frozen=True)
class Probe:
    """Inputs and output of a graph that compute single rows of a map (`RowProbe` of bundle.proto)."""

    heads: str
    queries: str
    output: str


@dataclass(frozen=True)
class ProjectionOutputs:
    """Gate and outputs of a map's projections (`Projections` of bundle.proto). bias: empty for no mask."""

    gate: str
    query: str
    key: str
    bias: str

    @property
    def outputs(self) -> tuple[str, ...]:
        """All outputs to fetch."""
        return tuple(filter(None, (self.query, self.key, self.bias)))


@dataclass(frozen=True)
class Projected:
    """Projections of a map for one instance.

    The weights are softmax over keys of (query · key + bias), and 0 for a query without a key whose bias is 0.

    Shapes: query [head, query, d], key [head, key, d], bias [head, query, key], where axes of size 1 broadcast; None
    for no mask.
    """

    query: Array
    key: Array
    bias: Array | None


@dataclass(frozen=True)
class ProjectedSize:
    """Size of a map's projections.

    Attributes:
        numbers: values for each query, and for each key.
        bias: name of the bias, which maps can share.
        bias_heads: heads of the bias with a value for each query and key; 0 if it does not depend on the query.
    """

    numbers: int
    bias: str
    bias_heads: int


def worth_probing(wanted: int, rows: int) -> bool:
    """Return whether probing `wanted` rows (heads × queries) costs less than a map of `rows` rows.

    The prediction itself computes the whole map as well.
    """
    return 4 * wanted < rows


@dataclass(frozen=True)
class BoundMap:
    """One quantity of a map, and the graph outputs that hold it (`MapBinding` of bundle.proto).

    Attributes:
        axes: axes of the output, in order.
        query_index, key_index: index outputs of a map with an edge axis.
        nested_mask: mask of the keys, for a map of edges that the graph outputs as [query, key of that query].
        joined: dimensions of the query and key label sets along which instances are joined.
        gate: input that must be true for `output` to hold the map; empty if it always does.
        probe: row probe; None if the graph has none.
        projections: outputs of the projections; None if the graph has none.
    """

    description: model_pb2.MapDescription
    quantity: attention_pb2.Quantity
    output: str
    axes: tuple[int, ...]
    query_index: str = ""
    key_index: str = ""
    nested_mask: str = ""
    joined: tuple[str, str] = ("", "")
    gate: str = ""
    probe: Probe | None = None
    projections: ProjectionOutputs | None = None

    @property
    def key(self) -> str:
        """Name among samples and tolerances."""
        return map_key(self.description.name, self.quantity)

    @property
    def is_rectangle(self) -> bool:
        """True if the output is [batch, head, query, key], and each instance fills the start of each axis."""
        return self.axes == DENSE_AXES and self.description.form == model_pb2.MAP_FORM_DENSE

    @property
    def outputs(self) -> tuple[str, ...]:
        """Outputs that hold the map, its own first."""
        return tuple(filter(None, (self.output, self.query_index, self.key_index)))

    def rows(
        self, outputs: Mapping[str, Array], rows: Sequence[Row], places: Sequence[int] | None = None
    ) -> list[MapWeights]:
        """Split a batch's outputs into the maps of its rows, cut to their sizes.

        Args:
            places: positions of the rows in the batch; None for all rows, in order.
        """
        if self.query_index:
            return self._edges(outputs, rows, places)
        whole = canonical(outputs[self.output], self.axes)
        chosen = range(len(rows)) if places is None else places
        return [
            cut(whole[place], self.description, row.labels, row, self.nested_mask)
            for row, place in zip(rows, chosen, strict=True)
        ]

    def part(
        self, outputs: Mapping[str, Array], row: Row, place: int, held: tuple[Array, Array], wanted: tuple[Array, Array]
    ) -> MapWeights:
        """Select the heads and queries of one row from those that a batch's row probe computed.

        Args:
            place: position of the row in the batch.
            held, wanted: computed and requested heads and queries, ascending.
        """
        assert self.probe is not None
        weights = outputs[self.probe.output][place, :, :, : row.labels[self.description.key_labels].size]
        return self.of_held(weights, held, wanted)

    def of_held(self, weights: Array, held: tuple[Array, Array], wanted: tuple[Array, Array]) -> MapWeights:
        """Select requested heads and queries from computed ones [head, query, key]. Arguments as for `part`."""
        for axis, (ours, theirs) in enumerate(zip(held, wanted, strict=True)):
            if len(ours) != len(theirs):
                weights = weights.take(np.searchsorted(ours, theirs), axis)
        return MapWeights(weights, heads=wanted[0], queries=wanted[1])

    def projected(self, outputs: Mapping[str, Array], row: Row, place: int) -> Projected:
        """Return the projections of one row, cut to its sizes. place: position of the row in the batch."""
        assert self.projections is not None
        queries, keys = (row.labels[name].size for name in (self.description.query_labels, self.description.key_labels))
        bias = outputs[self.projections.bias] if self.projections.bias else None
        if bias is not None:
            bias = bias[
                place if len(bias) > 1 else 0, :, :queries, :keys
            ]  # a slice of an axis of size 1 is the whole axis
        query, key = outputs[self.projections.query], outputs[self.projections.key]
        return Projected(query[place, :, :queries], key[place, :, :keys], bias)

    def _edges(
        self, outputs: Mapping[str, Array], rows: Sequence[Row], places: Sequence[int] | None
    ) -> list[MapWeights]:
        weights = _canonical(outputs[self.output], self.axes, _EDGES)
        query, key = outputs[self.query_index], outputs[self.key_index]
        if bundle_pb2.AXIS_BATCH in self.axes:
            chosen = range(len(rows)) if places is None else places
            return [_sort_edges(weights[place], query[place], key[place]) for place in chosen]
        assert places is None  # joined batches are not split before they run
        queries, keys = (offsets(rows, dimension) for dimension in self.joined)
        found = []
        for place in range(len(rows)):
            own = (query >= queries[place]) & (query < queries[place + 1])
            found.append(_sort_edges(weights[0][:, own], query[own] - queries[place], key[own] - keys[place]))
        return found


def map_key(name: str, quantity: int) -> str:
    """Name a quantity of a map, as samples, tolerances and graphs do; weights have the map's name."""
    if quantity == WEIGHTS:
        return name
    return quantity_key(name, attention_pb2.Quantity.Name(quantity).removeprefix("QUANTITY_").lower())


def map_quantities(
    maps: Iterable[model_pb2.MapDescription],
) -> list[tuple[model_pb2.MapDescription, attention_pb2.Quantity]]:
    """List every quantity of every map, weights first."""
    return [(each, quantity) for each in maps for quantity in (WEIGHTS, *each.quantities)]


def bound_maps(
    bundle: bundle_pb2.Bundle, graph: str, tensors: Mapping[str, BoundTensor]
) -> dict[tuple[str, int], BoundMap]:
    """Return the maps that a graph outputs, by name and quantity, in the description's order.

    Raises:
        BundleError: index outputs or joined label sets of a map of edges are missing.
    """
    bindings: dict[str, list[bundle_pb2.MapBinding]] = {}
    for binding in bundle.maps:
        if binding.graph == graph:
            bindings.setdefault(binding.map, []).append(binding)
    found: dict[tuple[str, int], BoundMap] = {}
    for description in bundle.description.maps:
        for binding in bindings.get(description.name, ()):
            quantity = binding.quantity or WEIGHTS
            found[description.name, quantity] = _bound(bundle.description, description, binding, quantity, tensors)
    return found


def _bound(
    model: model_pb2.ModelDescription,
    description: model_pb2.MapDescription,
    binding: bundle_pb2.MapBinding,
    quantity: attention_pb2.Quantity,
    tensors: Mapping[str, BoundTensor],
) -> BoundMap:
    edges = bundle_pb2.AXIS_EDGE in binding.axes
    if edges != bool(binding.query_index) or edges != bool(binding.key_index):
        raise BundleError(f"the map {description.name} must have an edge axis exactly if it has index outputs")
    if edges and description.form != model_pb2.MAP_FORM_EDGES:
        raise BundleError(f"the map {description.name} is output as edges, but described as dense")
    nested = "" if edges else nested_mask_name(model, description, tensors)
    joined = ("", "")
    if edges and bundle_pb2.AXIS_BATCH not in binding.axes:
        labels = {each.name: each for each in model.label_sets}
        joined = (labels[description.query_labels].dimension, labels[description.key_labels].dimension)
        if not all(joined):
            raise BundleError(f"the map {description.name} joins instances along label sets without a dimension")
    return BoundMap(
        description,
        quantity,
        binding.output,
        tuple(binding.axes),
        binding.query_index,
        binding.key_index,
        nested,
        joined,
        binding.gate,
        _probe(binding),
        _projections(binding),
    )


def _probe(binding: bundle_pb2.MapBinding) -> Probe | None:
    if not binding.HasField("probe"):
        return None
    return Probe(binding.probe.heads_input, binding.probe.queries_input, binding.probe.output)


def _projections(binding: bundle_pb2.MapBinding) -> ProjectionOutputs | None:
    if not binding.HasField("projections"):
        return None
    projections = binding.projections
    return ProjectionOutputs(
        projections.gate, projections.query_output, projections.key_output, projections.bias_output
    )


def edge_dimensions(bundle: bundle_pb2.Bundle) -> Mapping[str, str]:
    """Find the dimension that counts the edges of each map of edges: those of the graph that was read."""
    tensors = {each.name: each for each in tensor_descriptions(bundle.description.inputs)}
    sources = [
        step.read_graph.sources_tensor
        for each in bundle.preprocessing
        for step in each.steps
        if step.HasField("read_graph")
    ]
    counted = tensors[sources[0]].dimensions[0].name if len(sources) == 1 and sources[0] in tensors else ""
    return {
        binding.map: "" if bundle_pb2.AXIS_BATCH in binding.axes else counted
        for binding in bundle.maps
        if binding.query_index
    }


def canonical(array: Array, axes: Sequence[int]) -> Array:
    """Transpose a graph's output to [batch, head, query, key] (+ feature); missing axes get size 1."""
    return _canonical(array, axes, _ORDER)


def _canonical(array: Array, axes: Sequence[int], order: Sequence[int]) -> Array:
    present = [axis for axis in order if axis in axes]
    array = np.transpose(array, [list(axes).index(axis) for axis in present])
    for place, axis in enumerate(order[: order.index(bundle_pb2.AXIS_FEATURE)]):
        if axis not in axes:
            array = np.expand_dims(array, place)
    return array


def _sort_edges(weights: Array, query: Array, key: Array) -> MapWeights:
    """Sort edges by query, then key, and drop padding (-1)."""
    order = np.lexsort((key, query))
    order = order[query[order] >= 0]
    return MapWeights(
        np.ascontiguousarray(weights[:, order]), query[order].astype(np.int32), key[order].astype(np.int32)
    )


def cut(
    array: Array, description: model_pb2.MapDescription, labels: Mapping[str, Labels], row: Row, nested_mask: str = ""
) -> MapWeights:
    """Cut one row's weights to the sizes of its labels.

    Args:
        array: [head, query, key] or [head, query, key, feature], padded.
        nested_mask: for edges, the mask [query, key of that query]; its true places, in order, are the keys.
    """
    if description.form == model_pb2.MAP_FORM_EDGES:
        mask = np.asarray(row.tensors[nested_mask], dtype=bool)
        query_index, position = np.nonzero(mask)
        weights = array[:, query_index, position]
        key_index = np.arange(len(query_index), dtype=np.int32)
        return MapWeights(np.ascontiguousarray(weights), query_index.astype(np.int32), key_index)
    queries, keys = labels[description.query_labels].size, labels[description.key_labels].size
    return MapWeights(array[:, :queries, :keys])


def nested_mask_name(
    model: model_pb2.ModelDescription, description: model_pb2.MapDescription, tensors: Mapping[str, BoundTensor]
) -> str:
    """Return the mask of nested keys, for a map of edges that a graph outputs as a rectangle; else empty.

    Raises:
        BundleError: the keys come from no masked tensor.
    """
    if description.form != model_pb2.MAP_FORM_EDGES:
        return ""
    labels = next(each for each in model.label_sets if each.name == description.key_labels)
    if labels.tensor not in tensors or not tensors[labels.tensor].mask:
        raise BundleError(f"the map {description.name} has nested keys, but their tensor has no mask")
    if len(tensors[labels.tensor].description.dimensions) != 2:
        raise BundleError(f"the map {description.name} has nested keys, but their tensor has no rows")
    return tensors[labels.tensor].mask
