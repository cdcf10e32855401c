"""Interventions on attention as tensors of a row, which the graph for interventions takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from limelight_bundle.rows import Row
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
class BoundIntervention:
    """Inputs and output of the interventions on one map (`MapBinding` of bundle.proto).

    A row has those inputs that change something, without batch axis: scales [head], replacement [head, query, key],
    replaced and uniform [head, query, 1], key_factors [head, query, key]. One head or query of key_factors stands for
    all, and keys beyond its own are not multiplied. Where the queries are output steps, the last of a row's holds for
    all later steps as well.

    Attributes:
        graph: that puts the map out where nothing is changed.
        key_labels: label set of the keys.
    """

    map: str
    graph: str
    key_labels: str
    heads: int
    scales: str
    replacement: str
    replaced: str
    uniform: str
    key_factors: str
    masked: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs' names."""
        return self.scales, self.replacement, self.replaced, self.uniform, self.key_factors

    def feeds(self, rows: Sequence[Row]) -> Iterator[tuple[str, Array]]:
        """Give the inputs that some row of a batch has; rows without one are left as they are."""
        for name in self.inputs:
            held = [([place], row.tensors[name]) for place, row in enumerate(rows) if name in row.tensors]
            if held:
                yield name, self.together(name, held, len(rows))

    def together(self, name: str, parts: Sequence[tuple[list[int], Array]], count: int) -> Array:
        """Put tensors of one input together, which changes nothing in other rows.

        Args:
            parts: each with the rows that have it.
            count: of all rows.
        """
        sizes = [max(size) for size in zip(*(part.shape for _, part in parts), strict=True)]
        batch = np.full((count, *sizes), 1 if name in (self.scales, self.key_factors) else 0, np.float32)
        for places, part in parts:
            of_all = 2 if name == self.key_factors else 0  # axes of size 1 that stand for all
            inside = [slice(None if axis < of_all and size == 1 else size) for axis, size in enumerate(part.shape)]
            for place in places:
                batch[(place, *inside)] = part
        return batch


def bound_interventions(bundle: bundle_pb2.Bundle) -> dict[str, BoundIntervention]:
    """Return the interventions that a bundle's graph for them takes, by map."""
    described = {each.name: each for each in bundle.description.maps}
    found = {}
    for each in bundle.maps:
        if each.head_scales:
            replacement, replaced, uniform = each.weights_inputs
            description = described[each.map]
            found[each.map] = BoundIntervention(
                each.map,
                each.graph,
                description.key_labels,
                description.heads,
                each.head_scales,
                replacement,
                replaced,
                uniform,
                each.key_factors,
                each.masked_output,
            )
    return found


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
            if each.HasField("probe"):  # a gate alone is of a map that is made of others, there too
                each.gate = ""
            each.ClearField("probe")
            each.ClearField("projections")
    if bundle.HasField("generation"):
        for role in ("encoder", "step", "prefill"):
            if (changed := intervened_name(getattr(bundle.generation, role))) in names:
                setattr(made.generation, role, changed)
    return made
