"""Interventions on attention as tensors of a row, which the graph for interventions takes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bundle.rows import Row
from bundle.v1 import bundle_pb2
from bundle.values import Array

INTERVENED_GRAPH = "intervened"


@dataclass(frozen=True)
class BoundIntervention:
    """Inputs and output of the interventions on one map (`MapBinding` of bundle.proto).

    A row has those inputs that change something, without batch axis: scales [head], replacement [head, query, key],
    replaced and uniform [head, query, 1].
    """

    map: str
    heads: int
    scales: str
    replacement: str
    replaced: str
    uniform: str
    masked: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs' names."""
        return self.scales, self.replacement, self.replaced, self.uniform

    def feeds(self, rows: Sequence[Row]) -> Iterator[tuple[str, Array]]:
        """Give the inputs that some row of a batch has; rows without one are left as they are."""
        for name in self.inputs:
            held = [row.tensors.get(name) for row in rows]
            given = [each for each in held if each is not None]
            if not given:
                continue
            sizes = [max(size) for size in zip(*(each.shape for each in given), strict=True)]
            batch = np.full((len(rows), *sizes), 1 if name == self.scales else 0, np.float32)
            for place, each in zip(batch, held, strict=True):
                if each is not None:
                    place[tuple(slice(size) for size in each.shape)] = each
            yield name, batch


def bound_interventions(bundle: bundle_pb2.Bundle) -> dict[str, BoundIntervention]:
    """Return the interventions that a bundle's graph for them takes, by map."""
    heads = {each.name: each.heads for each in bundle.description.maps}
    found = {}
    for each in bundle.maps:
        if each.head_scales:
            replacement, replaced, uniform = each.weights_inputs
            found[each.map] = BoundIntervention(
                each.map, heads[each.map], each.head_scales, replacement, replaced, uniform, each.masked_output
            )
    return found


def intervened_bindings(bundle: bundle_pb2.Bundle) -> bundle_pb2.Bundle:
    """Return a bundle whose maps are whole outputs of the graph for interventions."""
    made = bundle_pb2.Bundle()
    made.CopyFrom(bundle)
    for each in made.maps:
        each.graph, each.gate = INTERVENED_GRAPH, ""
        each.ClearField("probe")
        each.ClearField("projections")
    return made
