"""What the steps of a generation put out besides scores: kept step by step, read back along a hypothesis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bundle.errors import BundleError
from bundle.maps import MapWeights
from bundle.rows import Row
from bundle.v1 import bundle_pb2
from bundle.values import Array
from limelight.v1 import model_pb2
from service.engine.forward import BoundMap, bound_maps, cut_output
from service.engine.search import Hypothesis


@dataclass
class Trace:
    """The wanted maps [slot, head, 1, key] and outputs [slot, …] of each step so far; a slot is a live hypothesis of
    the batch.
    """

    maps: Mapping[str, BoundMap]
    outputs: Sequence[model_pb2.OutputDescription]
    steps: list[dict[str, Array]] = field(default_factory=list)

    @property
    def fetched(self) -> list[str]:
        """Names of the graph's outputs that it needs."""
        return [*(each.output for each in self.maps.values()), *(each.name for each in self.outputs)]

    def add(self, fetched: Mapping[str, Array]) -> None:
        """Keep what a step put out."""
        self.steps.append({name: fetched[name] for name in self.fetched})

    def step_maps(self, wanted: frozenset[str], row: Row, step: int, slot: int) -> dict[str, MapWeights]:
        """Give one step's weights of each map: [head, 1, key] (+ feature)."""
        return {
            name: MapWeights(np.ascontiguousarray(self._weights(bound, row, step, slot)))
            for name, bound in self.maps.items()
            if name in wanted
        }

    def sequence_maps(self, wanted: frozenset[str], row: Row, slots: Sequence[int]) -> dict[str, MapWeights]:
        """Give each map over a whole sequence: [head, output step, key] (+ feature); slots: of its hypothesis at each
        step.

        Keys that grow with the sequence are filled up with zeros.
        """
        return {
            name: MapWeights(self._stacked(bound, row, slots)) for name, bound in self.maps.items() if name in wanted
        }

    def sequence_outputs(self, row: Row, slots: Sequence[int]) -> dict[str, Array]:
        """Give each raw output of the step graph over a whole sequence: [output step, …]."""
        stacked = {}
        for each in self.outputs:
            of_step = each.dimensions[1:]  # the first axis counts the steps
            rows = (self.steps[step][each.name][slot] for step, slot in enumerate(slots))
            cuts = [cut_output(row_of_step, of_step, row.sizes) for row_of_step in rows]
            if cuts:
                stacked[each.name] = np.stack(cuts)
        return stacked

    def _weights(self, bound: BoundMap, row: Row, step: int, slot: int) -> Array:
        weights: Array = bound.batch(self.steps[step][bound.output][slot : slot + 1])[0]
        labels = row.labels.get(bound.description.key_labels)
        return weights if labels is None else weights[:, :, : labels.size]

    def _stacked(self, bound: BoundMap, row: Row, slots: Sequence[int]) -> Array:
        rows = [self._weights(bound, row, step, slot) for step, slot in enumerate(slots)]
        labels = row.labels.get(bound.description.key_labels)
        if not rows:
            features = [bound.description.features] if bound.description.features else []
            keys = labels.size if labels else 0
            return np.zeros((bound.description.heads, 0, keys, *features), np.float32)
        keys = max(weights.shape[2] for weights in rows)
        stacked = np.zeros((rows[0].shape[0], len(rows), keys, *rows[0].shape[3:]), rows[0].dtype)
        for step, weights in enumerate(rows):
            stacked[:, step : step + 1, : weights.shape[2]] = weights
        return stacked


class Tracer:
    """Makes the traces of one step graph.

    Raises: BundleError for a map of edges, which a step cannot put out.
    """

    def __init__(self, bundle: bundle_pb2.Bundle, step: bundle_pb2.OnnxGraph, *, encoded: frozenset[str]) -> None:
        self._maps = bound_maps(bundle, step.name)
        self._outputs = [each for each in bundle.description.outputs if each.name not in encoded]
        if missing := {each.name for each in self._outputs} - set(step.outputs):
            raise BundleError(f"no graph puts out {sorted(missing)}")
        for name, bound in self._maps.items():
            if bound.description.form == model_pb2.MAP_FORM_EDGES:
                raise BundleError(f"the map {name} is of edges, which a step graph cannot put out")

    def start(self, wanted: frozenset[str]) -> Trace:
        """Begin a trace of the wanted maps."""
        return Trace({name: bound for name, bound in self._maps.items() if name in wanted}, self._outputs)


def slots_of(hypothesis: Hypothesis, firsts: Sequence[int]) -> list[int]:
    """Give the slot that computed each token of a hypothesis; firsts: the first slot of its row at each step."""
    return [first + each.place for first, each in zip(firsts, hypothesis.chain(), strict=False)]
