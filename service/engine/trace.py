"""What the steps of a generation put out besides scores: kept step by step, read back along a hypothesis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bundle.errors import BundleError
from bundle.maps import BoundMap, MapWeights, bound_maps, canonical
from bundle.rows import BoundTensor, Row, cut_output
from bundle.v1 import bundle_pb2
from bundle.values import Array
from limelight.v1 import attention_pb2, model_pb2
from service.engine.search import Hypothesis
from service.engine.types import MapKey

# What stands where a key was not there yet: no weight, and the lowest score.
_ABSENT = {attention_pb2.QUANTITY_SCORES: np.finfo(np.float32).min}


@dataclass
class Trace:
    """The wanted maps [slot, head, 1, key] and outputs [slot, …] of each step so far; a slot is a live hypothesis of
    the batch.
    """

    maps: Mapping[MapKey, BoundMap]
    outputs: Sequence[model_pb2.OutputDescription]
    steps: list[dict[str, Array]] = field(default_factory=list)

    @property
    def fetched(self) -> list[str]:
        """Names of the graph's outputs that it needs."""
        return [*(each.output for each in self.maps.values()), *(each.name for each in self.outputs)]

    def add(self, fetched: Mapping[str, Array]) -> None:
        """Keep what a step put out."""
        self.steps.append({name: fetched[name] for name in self.fetched})

    def step_maps(self, wanted: frozenset[MapKey], row: Row, step: int, slot: int) -> dict[MapKey, MapWeights]:
        """Give one step's weights of each map: [head, 1, key] (+ feature)."""
        return {
            key: MapWeights(np.ascontiguousarray(self._weights(bound, row, step, slot)))
            for key, bound in self.maps.items()
            if key in wanted
        }

    def sequence_maps(self, wanted: frozenset[MapKey], row: Row, slots: Sequence[int]) -> dict[MapKey, MapWeights]:
        """Give each map over a whole sequence: [head, output step, key] (+ feature); slots: of its hypothesis at each
        step.

        Keys that grow with the sequence are filled up: with zeros, and scores with the lowest.
        """
        return {key: MapWeights(self._stacked(bound, row, slots)) for key, bound in self.maps.items() if key in wanted}

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
        weights: Array = canonical(self.steps[step][bound.output][slot : slot + 1], bound.axes)[0]
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
        shape = (rows[0].shape[0], len(rows), keys, *rows[0].shape[3:])
        stacked = np.full(shape, _ABSENT.get(bound.quantity, 0.0), rows[0].dtype)
        for step, weights in enumerate(rows):
            stacked[:, step : step + 1, : weights.shape[2]] = weights
        return stacked


class Tracer:
    """Makes the traces of one step graph.

    Raises: BundleError for a map of edges, which a step cannot put out.
    """

    def __init__(
        self,
        bundle: bundle_pb2.Bundle,
        step: bundle_pb2.OnnxGraph,
        tensors: Mapping[str, BoundTensor],
        *,
        encoded: frozenset[str],
    ) -> None:
        self._maps = bound_maps(bundle, step.name, tensors)
        self._outputs = [each for each in bundle.description.outputs if each.name not in encoded]
        if missing := {each.name for each in self._outputs} - set(step.outputs):
            raise BundleError(f"no graph puts out {sorted(missing)}")
        for (name, _), bound in self._maps.items():
            if bound.description.form == model_pb2.MAP_FORM_EDGES:
                raise BundleError(f"the map {name} is of edges, which a step graph cannot put out")

    def start(self, wanted: frozenset[MapKey]) -> Trace:
        """Begin a trace of the wanted maps."""
        return Trace({key: bound for key, bound in self._maps.items() if key in wanted}, self._outputs)


def slots_of(hypothesis: Hypothesis, firsts: Sequence[int]) -> list[int]:
    """Give the slot that computed each token of a hypothesis; firsts: the first slot of its row at each step."""
    return [first + each.place for first, each in zip(firsts, hypothesis.chain(), strict=False)]
