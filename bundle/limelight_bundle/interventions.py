"""Interventions on attention as tensors of a row, which the graph for interventions takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from limelight.v1 import model_pb2
from limelight_bundle.maps import VALUES, nested_mask_name
from limelight_bundle.rows import Row, bound_tensors
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array

INTERVENED_GRAPH = "intervened"


def intervened_graph(bundle: bundle_pb2.Bundle, graph: str) -> str:
    """Name the graph that answers rows with interventions in a graph's place; the bundle may lack it."""
    return intervened_name(graph) if bundle.HasField("generation") else INTERVENED_GRAPH


def intervened_name(part: str) -> str:
    """Name the graph for interventions of a part of a generating model."""
    return f"{INTERVENED_GRAPH}_{part}"


@dataclass(frozen=True)
class Edges:
    """The edges of a row's map, in the order in which the map is answered.

    Attributes:
        query, key: of each edge, [edge].
        shape: of what a row has for each edge and head: [edge, head], or of nested keys [head, query, key of it].
    """

    query: Array
    key: Array
    shape: tuple[int, ...]
    _places: tuple[Array | slice, ...]

    @classmethod
    def joined(cls, query: Array, key: Array, heads: int) -> "Edges":
        """Give those between queries and keys, [edge] each."""
        order = np.lexsort((key, query))
        return cls(query[order], key[order], (len(order), heads), (order,))

    @classmethod
    def nested(cls, mask: Array, heads: int) -> "Edges":
        """Give those of the keys that a mask [query, key of the query] has."""
        query, place = np.nonzero(mask)
        return cls(query, np.arange(len(query)), (heads, *mask.shape), (slice(None), query, place))

    def tensor(self, values: Array, default: float) -> Array:
        """Put [head, edge] where a row's tensor has it, among defaults."""
        made = np.full(self.shape, default, np.float32)
        made[self._places] = values if len(self.shape) == 3 else values.T
        return made


@dataclass(frozen=True)
class BoundIntervention:
    """Inputs and output of the interventions on one map (`MapBinding` of bundle.proto).

    A row has those inputs that change something, without batch axis: scales [head], replacement [head, query, key],
    replaced and uniform [head, query, 1], key_factors [head, query, key]. One head or query of key_factors stands for
    all, and keys beyond its own are not multiplied. Where the queries are output steps, the last of a row's holds for
    all later steps as well. Of a map of edges that are joined, every tensor is [edge, head].

    Attributes:
        graph: that puts the map out where nothing is changed.
        query_labels, key_labels: label sets of its axes.
        edges: tensors with the query and the key of each edge, of a map of edges that are joined; else none.
        nested: mask of nested keys; empty for a map without.
    """

    map: str
    graph: str
    query_labels: str
    key_labels: str
    heads: int
    scales: str
    replacement: str
    replaced: str
    uniform: str
    key_factors: str
    masked: str
    edges: tuple[str, ...] = ()
    nested: str = ""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs' names."""
        return self.scales, self.replacement, self.replaced, self.uniform, self.key_factors

    @property
    def is_of_edges(self) -> bool:
        """Whether the map is one of edges."""
        return bool(self.edges or self.nested)

    def places(self, row: Row) -> int:
        """Return for how many places a row's tensors of a map of edges have a number of each head."""
        return int(row.tensors[self.edges[0] if self.edges else self.nested].size)

    def edges_of(self, row: Row) -> Edges | None:
        """Find the edges of a row's map; None for a dense map."""
        if self.nested:
            return Edges.nested(row.tensors[self.nested], self.heads)
        if not self.edges:
            return None
        query, key = self.edges
        return Edges.joined(row.tensors[query], row.tensors[key], self.heads)

    def usual_scales(self, row: Row) -> Array:
        """Make the scales of a row that change nothing."""
        return np.ones((self.places(row), self.heads) if self.edges else self.heads, np.float32)

    def default(self, name: str) -> int:
        """Return the number that an input holds where nothing changes."""
        return 1 if name in (self.scales, self.key_factors) else 0

    def feeds(self, rows: Sequence[Row]) -> Iterator[tuple[str, Array]]:
        """Give the inputs that some row of a batch has; rows without one are left as they are."""
        for name in self.inputs:
            held = [([place], row.tensors[name]) for place, row in enumerate(rows) if name in row.tensors]
            if held and self.edges:
                sizes = ((self.places(row), self.heads) for row in rows)
                parts: list[Array] = [np.full(size, self.default(name), np.float32) for size in sizes]
                for (place,), part in held:
                    parts[place] = part
                yield name, np.concatenate(parts)
            elif held:
                yield name, self.together(name, held, len(rows))

    def together(self, name: str, parts: Sequence[tuple[list[int], Array]], count: int) -> Array:
        """Put tensors of one input together, which changes nothing in other rows.

        Args:
            parts: each with the rows that have it.
            count: of all rows.
        """
        sizes = [max(size) for size in zip(*(part.shape for _, part in parts), strict=True)]
        batch = np.full((count, *sizes), self.default(name), np.float32)
        for places, part in parts:
            of_all = 2 if name == self.key_factors else 0  # axes of size 1 that stand for all
            inside = [slice(None if axis < of_all and size == 1 else size) for axis, size in enumerate(part.shape)]
            for place in places:
                batch[(place, *inside)] = part
        return batch


def bound_interventions(bundle: bundle_pb2.Bundle) -> dict[str, BoundIntervention]:
    """Return the interventions that a bundle's graph for them takes, by map."""
    described = {each.name: each for each in bundle.description.maps}
    return {each.map: bound_intervention(bundle, each, described[each.map]) for each in bundle.maps if each.head_scales}


def bound_intervention(
    bundle: bundle_pb2.Bundle, binding: bundle_pb2.MapBinding, description: model_pb2.MapDescription
) -> BoundIntervention:
    """Bind the interventions on one map. bundle: its inputs and label sets are read, and how inputs are made."""
    replacement, replaced, uniform = binding.weights_inputs
    joined = bundle_pb2.AXIS_EDGE in binding.axes
    tensors = bound_tensors(bundle.description.inputs, bundle.tensors)
    return BoundIntervention(
        binding.map,
        binding.graph,
        description.query_labels,
        description.key_labels,
        description.heads,
        binding.head_scales,
        replacement,
        replaced,
        uniform,
        binding.key_factors,
        binding.masked_output,
        edge_tensors(bundle) if joined else (),
        "" if joined else nested_mask_name(bundle.description, description, tensors),
    )


def edge_tensors(bundle: bundle_pb2.Bundle) -> tuple[str, ...]:
    """Name the tensors with the query and the key of each edge of the graph that is read; none for several graphs."""
    steps = [step.read_graph for each in bundle.preprocessing for step in each.steps if step.HasField("read_graph")]
    return (steps[0].targets_tensor, steps[0].sources_tensor) if len(steps) == 1 else ()


def has_gate_of_its_own(binding: bundle_pb2.MapBinding) -> bool:
    """Return whether a gate is of a map that is made of others: there it is in the graph for interventions too."""
    return bool(binding.gate) and not binding.HasField("probe") and binding.quantity != VALUES


def intervened_bindings(bundle: bundle_pb2.Bundle) -> bundle_pb2.Bundle:
    """Return a bundle whose maps are whole outputs of the graphs for interventions, and which generates with these.

    A part of a generating model that has no graph for interventions stays.
    """
    made = bundle_pb2.Bundle()
    made.CopyFrom(bundle)
    names = {each.name for each in bundle.graphs}
    for each in made.maps:
        if (changed := intervened_graph(bundle, each.graph)) in names:
            each.graph = changed
            if not has_gate_of_its_own(each):
                each.gate = ""
            each.ClearField("probe")
            each.ClearField("projections")
    if bundle.HasField("generation"):
        for role in ("encoder", "step", "prefill"):
            if (changed := intervened_name(getattr(bundle.generation, role))) in names:
                setattr(made.generation, role, changed)
    return made
