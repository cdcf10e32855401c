"""From a graph's output to the map of one instance: cut to its own sizes, in the form that the description states."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bundle.errors import BundleError
from bundle.names import quantity_key
from bundle.rows import BoundTensor, Labels, Row, offsets
from bundle.v1 import bundle_pb2
from bundle.values import Array
from limelight.v1 import attention_pb2, model_pb2

WEIGHTS = attention_pb2.QUANTITY_WEIGHTS
SCORES = attention_pb2.QUANTITY_SCORES
NORMS = attention_pb2.QUANTITY_NORMS
DENSE_AXES = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_QUERY, bundle_pb2.AXIS_KEY)
_ORDER = (*DENSE_AXES, bundle_pb2.AXIS_FEATURE)
_EDGES = (bundle_pb2.AXIS_BATCH, bundle_pb2.AXIS_HEAD, bundle_pb2.AXIS_EDGE, bundle_pb2.AXIS_FEATURE)


@dataclass(frozen=True)
class MapPart:
    """Heads and queries of a map that are enough for somebody: indices, ascending; None for all of an axis.

    projected: it is enough to know what the weights are made of, where the model tells that.
    half: numbers rounded to float16 are enough, too.
    """

    heads: Array | None = None
    queries: Array | None = None
    projected: bool = field(default=False, kw_only=True)
    half: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class MapWeights:
    """The weights of one map for one instance (or another quantity of it).

    Dense: `weights` [head, query, key] or [head, query, key, feature], no indices.
    Edges: `weights` [head, edge] with `query_index` and `key_index` INT32 [edge], in order of query, then key.
    heads, queries: of a dense map that is here in part, the indices that its axes hold, ascending; None for all.
    """

    weights: Array
    query_index: Array | None = None
    key_index: Array | None = None
    heads: Array | None = None
    queries: Array | None = None

    def has_edges_of(self, other: "MapWeights") -> bool:
        """Tell whether both are dense, or have the same edges."""
        pairs = ((self.query_index, other.query_index), (self.key_index, other.key_index))
        return all(
            ours is theirs if ours is None or theirs is None else np.array_equal(ours, theirs) for ours, theirs in pairs
        )


@dataclass(frozen=True)
class Probe:
    """Where a graph computes single rows of a map (`RowProbe` on disk): its inputs, and its output."""

    heads: str
    queries: str
    output: str


@dataclass(frozen=True)
class ProjectionOutputs:
    """Where a graph puts out what it makes a map's weights of (`Projections` on disk). bias: empty where nothing is
    ever masked.
    """

    gate: str
    query: str
    key: str
    bias: str

    @property
    def outputs(self) -> tuple[str, ...]:
        """All that is to be fetched."""
        return tuple(filter(None, (self.query, self.key, self.bias)))


@dataclass(frozen=True)
class Projected:
    """What the weights of a map are made of, for one instance: softmax over keys of (query · key + bias), and 0 for a
    query that no key of which has a bias of 0.

    Shapes: query [head, query, d], key [head, key, d], bias [head, query, key], where an axis of size 1 stands for all;
    None where nothing is masked.
    """

    query: Array
    key: Array
    bias: Array | None


@dataclass(frozen=True)
class ProjectedSize:
    """What a map's weights are made of takes.

    numbers: for each query, and for each key. bias: what maps that share it have in common. bias_heads: of the bias,
    one number each for every query and key; 0 where it has none for each query.
    """

    numbers: int
    bias: str
    bias_heads: int


def worth_probing(wanted: int, rows: int) -> bool:
    """Tell whether a probe for so many rows (heads × queries) costs less than the whole map of so many, which a
    prediction computes as well.
    """
    return 4 * wanted < rows


@dataclass(frozen=True)
class BoundMap:
    """One quantity of a map, and where a graph puts it out (`MapBinding` on disk).

    axes: of the output, in its order. query_index, key_index: outputs, for a map that the graph gives as edges.
    nested_mask: for a map of edges that the graph gives as [query, key of that query], the mask of the keys.
    joined: the dimensions of the query and key label sets where the instances of a batch are joined along them.
    gate: the input that must be true for `output` to hold the map; empty where it always does. probe: None where single
    rows cannot be had. projections: None where what the weights are made of cannot.
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
        """Its name among samples and tolerances."""
        return map_key(self.description.name, self.quantity)

    @property
    def is_rectangle(self) -> bool:
        """True where the graph gives [batch, head, query, key], and each instance has the first places of each axis."""
        return self.axes == DENSE_AXES and self.description.form == model_pb2.MAP_FORM_DENSE

    @property
    def outputs(self) -> tuple[str, ...]:
        """Every output that it is read from, its own first."""
        return tuple(filter(None, (self.output, self.query_index, self.key_index)))

    def rows(
        self, outputs: Mapping[str, Array], rows: Sequence[Row], places: Sequence[int] | None = None
    ) -> list[MapWeights]:
        """Give each row's part of a batch's outputs, cut to the row's own sizes.

        places: where the rows stand in the batch; None where they are all of it, in order.
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
        """Give the heads and queries that one row wants of those that a batch's probe was asked for.

        place: of the row in the batch. held, wanted: heads and queries, ascending.
        """
        assert self.probe is not None
        weights = outputs[self.probe.output][place, :, :, : row.labels[self.description.key_labels].size]
        return self.of_held(weights, held, wanted)

    def of_held(self, weights: Array, held: tuple[Array, Array], wanted: tuple[Array, Array]) -> MapWeights:
        """Take what one row wants of what there is for it [head, query, key]. held, wanted: as for `part`."""
        for axis, (ours, theirs) in enumerate(zip(held, wanted, strict=True)):
            if len(ours) != len(theirs):
                weights = weights.take(np.searchsorted(ours, theirs), axis)
        return MapWeights(weights, heads=wanted[0], queries=wanted[1])

    def projected(self, outputs: Mapping[str, Array], row: Row, place: int) -> Projected:
        """Give what one row's weights are made of, cut to its own sizes. place: of the row in the batch."""
        assert self.projections is not None
        queries, keys = (row.labels[name].size for name in (self.description.query_labels, self.description.key_labels))
        bias = outputs[self.projections.bias] if self.projections.bias else None
        if bias is not None:
            bias = bias[place if len(bias) > 1 else 0, :, :queries, :keys]  # of an axis of size 1 that is all
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
        assert places is None  # a joined batch is never taken apart before it has run
        queries, keys = (offsets(rows, dimension) for dimension in self.joined)
        found = []
        for place in range(len(rows)):
            own = (query >= queries[place]) & (query < queries[place + 1])
            found.append(_sort_edges(weights[0][:, own], query[own] - queries[place], key[own] - keys[place]))
        return found


def map_key(name: str, quantity: int) -> str:
    """Name one quantity of a map as samples, tolerances and exported graphs do: weights by the map's own name."""
    if quantity == WEIGHTS:
        return name
    return quantity_key(name, attention_pb2.Quantity.Name(quantity).removeprefix("QUANTITY_").lower())


def map_quantities(
    maps: Iterable[model_pb2.MapDescription],
) -> list[tuple[model_pb2.MapDescription, attention_pb2.Quantity]]:
    """Give every quantity of every map, weights first."""
    return [(each, quantity) for each in maps for quantity in (WEIGHTS, *each.quantities)]


def bound_maps(
    bundle: bundle_pb2.Bundle, graph: str, tensors: Mapping[str, BoundTensor]
) -> dict[tuple[str, int], BoundMap]:
    """Give what a graph puts out of the maps, by name and quantity, in the description's order.

    Raises: BundleError where an edge map's index outputs, or its joined label sets, are not stated.
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
        raise BundleError(f"the map {description.name} has an edge axis, or index outputs, but not both")
    if edges and description.form != model_pb2.MAP_FORM_EDGES:
        raise BundleError(f"the map {description.name} is put out as edges, but described as dense")
    nested = "" if edges else nested_mask_name(model, description, tensors)
    joined = ("", "")
    if edges and bundle_pb2.AXIS_BATCH not in binding.axes:
        labels = {each.name: each for each in model.label_sets}
        joined = (labels[description.query_labels].dimension, labels[description.key_labels].dimension)
        if not all(joined):
            raise BundleError(f"the map {description.name} joins instances along label sets that no dimension counts")
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


def canonical(array: Array, axes: Sequence[int]) -> Array:
    """Bring a graph's output to [batch, head, query, key] (+ feature); a head or query axis it lacks has size 1."""
    return _canonical(array, axes, _ORDER)


def _canonical(array: Array, axes: Sequence[int], order: Sequence[int]) -> Array:
    present = [axis for axis in order if axis in axes]
    array = np.transpose(array, [list(axes).index(axis) for axis in present])
    for place, axis in enumerate(order[: order.index(bundle_pb2.AXIS_FEATURE)]):
        if axis not in axes:
            array = np.expand_dims(array, place)
    return array


def _sort_edges(weights: Array, query: Array, key: Array) -> MapWeights:
    """Edges in order of query, then key, without the places that are no edge (-1)."""
    order = np.lexsort((key, query))
    order = order[query[order] >= 0]
    return MapWeights(
        np.ascontiguousarray(weights[:, order]), query[order].astype(np.int32), key[order].astype(np.int32)
    )


def cut(
    array: Array, description: model_pb2.MapDescription, labels: Mapping[str, Labels], row: Row, nested_mask: str = ""
) -> MapWeights:
    """Cut one row's weights to the sizes that its labels state.

    array: [head, query, key] or [head, query, key, feature], padded.
    nested_mask: for edges, the mask [query, key of that query]; its true places, in order, are the key label set's.
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
    """Name the mask that tells which keys belong to which query, for a map of edges that a graph gives as a rectangle.

    Empty for a dense map. Raises: BundleError where the keys come from no masked tensor.
    """
    if description.form != model_pb2.MAP_FORM_EDGES:
        return ""
    labels = next(each for each in model.label_sets if each.name == description.key_labels)
    if labels.tensor not in tensors or not tensors[labels.tensor].mask:
        raise BundleError(f"the map {description.name} has nested keys, but their tensor has no mask")
    if len(tensors[labels.tensor].description.dimensions) != 2:
        raise BundleError(f"the map {description.name} has nested keys, but their tensor has no rows")
    return tensors[labels.tensor].mask


def fixed_labels(description: model_pb2.ModelDescription) -> dict[str, Labels]:
    """Label sets that are the same for every instance: grids, classes, hops, latents, a single entry.

    A grid's region is each instance's own: preprocessing adds it.
    """
    fixed: dict[str, Labels] = {}
    for each in description.label_sets:
        if each.HasField("grid"):
            fixed[each.name] = grid_labels(each)
        elif each.kind == attention_pb2.LABEL_KIND_ONE:
            fixed[each.name] = Labels(each.name, each.kind, 1, tuple(each.names))
        elif each.names:
            fixed[each.name] = Labels(each.name, each.kind, len(each.names), tuple(each.names))
    return fixed


def grid_labels(description: model_pb2.LabelSetDescription, region: attention_pb2.Region | None = None) -> Labels:
    """Give the label set of a grid. region: what its cells cover of the image; None where no image was sent."""
    grid = attention_pb2.Grid()
    grid.CopyFrom(description.grid)
    if region is not None:
        grid.region.CopyFrom(region)
    inputs = (description.input,) if description.input else ()
    size = len(grid.leading) + grid.rows * grid.columns
    return Labels(description.name, description.kind, size, grid=grid, inputs=inputs)
