"""The maps and outputs of a row's decode steps: kept step by step, read back along a hypothesis."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from limelight_bundle.descriptions import MAP_FORM_EDGES, QUANTITY_SCORES, OutputDescription
from limelight_bundle.errors import BundleError
from limelight_bundle.maps import BoundMap, MapWeights, bound_maps, canonical
from limelight_bundle.rows import BoundTensor, Row, cut_output
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.decoding.search import Floats, Hypothesis, largest
from limelight_service.engine.runtime.finite import Finite
from limelight_service.engine.runtime.hidden import GraphHidden
from limelight_service.engine.types import MapKey, Query

# The values of keys that were not there yet: no weight, and the lowest score.
_ABSENT = {QUANTITY_SCORES: np.finfo(np.float32).min}


@dataclass
class Trace:
    """The requested maps and outputs of each step of a row so far, by the hypotheses that were live.

    likeliest: the most probable tokens of each step and their log-probabilities, where they are asked for.

    Shapes: maps [hypothesis, head, 1, key] (+ feature), outputs [hypothesis, …], likeliest [hypothesis, place] each.
    """

    row: Row
    maps: Mapping[MapKey, BoundMap]
    outputs: Sequence[OutputDescription]
    weights: list[dict[MapKey, Array]] = field(default_factory=list)
    values: list[dict[str, Array]] = field(default_factory=list)
    likeliest: list[tuple[Array, Array]] = field(default_factory=list)

    @property
    def fetched(self) -> Iterator[str]:
        """The outputs of the step graph that are fetched for it."""
        yield from (bound.output for bound in self.maps.values())
        yield from (each.name for each in self.outputs)

    def add(self, fetched: Mapping[str, Array], slots: slice | Sequence[int], entries: int) -> None:
        """Keep the outputs of a step in the row's slots.

        Args:
            entries: number of keys, where keys are input steps.
        """
        weights = {}
        for key, bound in self.maps.items():
            labels = self.row.labels.get(bound.description.key_labels)
            keys = entries if labels is None else labels.size
            weights[key] = canonical(fetched[bound.output][slots], bound.axes)[:, :, :, :keys].copy()
        self.weights.append(weights)
        self.values.append({each.name: fetched[each.name][slots].copy() for each in self.outputs})

    def add_likeliest(self, log_probabilities: Floats, count: int) -> None:
        """Keep the most probable tokens of a step. log_probabilities: [hypothesis, token]."""
        tokens = np.stack([largest(each, count) for each in log_probabilities])
        self.likeliest.append((tokens, np.take_along_axis(log_probabilities, tokens, axis=1)))

    def likeliest_at(self, step: int, place: int) -> list[tuple[Array, Array]]:
        """Give those of one step, [place] each; place: of the hypothesis. Empty where they are not asked for."""
        return [(tokens[place], values[place]) for tokens, values in self.likeliest[step : step + 1]]

    def likeliest_of(self, hypothesis: Hypothesis) -> list[tuple[Array, Array]]:
        """Give those of each step of a whole sequence."""
        chain = enumerate(hypothesis.chain() if self.likeliest else ())
        return [found for step, each in chain for found in self.likeliest_at(step, each.place)]

    def problem(self, finite: Finite, scores: str) -> str:
        """Name the first that is not finite of the latest step; empty where all are. scores: checked elsewhere."""
        values = {name: each for name, each in self.values[-1].items() if name != scores}
        if not values and not self.maps:
            return ""
        return finite.problem(values, {key: MapWeights(each) for key, each in self.weights[-1].items()})

    def step_maps(self, step: int, place: int) -> dict[MapKey, MapWeights]:
        """Give one step's weights of each map: [head, 1, key] (+ feature); place: of the hypothesis."""
        return {key: MapWeights(np.ascontiguousarray(each[place])) for key, each in self.weights[step].items()}

    def sequence_maps(self, hypothesis: Hypothesis) -> dict[MapKey, MapWeights]:
        """Give each map over a whole sequence: [head, output step, key] (+ feature).

        Keys that grow with the sequence are filled up: with zeros, and scores with the lowest.
        """
        places = [each.place for each in hypothesis.chain()]
        return {key: MapWeights(self._stacked(key, bound, places)) for key, bound in self.maps.items()}

    def sequence_outputs(self, hypothesis: Hypothesis) -> dict[str, Array]:
        """Give each raw output of the step graph over a whole sequence: [output step, …]."""
        stacked = {}
        for each in self.outputs:
            of_step = each.dimensions[1:]  # the first axis counts the steps
            chain = enumerate(hypothesis.chain())
            cuts = [cut_output(self.values[n][each.name][one.place], of_step, self.row.sizes) for n, one in chain]
            if cuts:
                stacked[each.name] = np.stack(cuts)
        return stacked

    def _stacked(self, key: MapKey, bound: BoundMap, places: Sequence[int]) -> Array:
        rows = [self.weights[step][key][place] for step, place in enumerate(places)]
        if not rows:
            labels = self.row.labels.get(bound.description.key_labels)
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

    Raises: BundleError for a map of edges, which a step cannot give.
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
        self._hidden = GraphHidden(bundle, step.name).outputs
        self._outputs = [each for each in bundle.description.outputs if each.name not in encoded]
        if missing := {each.name for each in self._outputs} - set(step.outputs):
            raise BundleError(f"no graph has the outputs {sorted(missing)}")
        for (name, _), bound in self._maps.items():
            if bound.description.form == MAP_FORM_EDGES:
                raise BundleError(f"the map {name} is of edges, which a step graph cannot have")

    def start(self, row: Row, query: Query) -> Trace:
        """Begin a row's trace of the maps and outputs that a query requests."""
        maps = {key: bound for key, bound in self._maps.items() if key in query.maps}
        wanted = query.outputs
        outputs = [each for each in self._outputs if wanted is None or each.name in wanted]
        return Trace(row, maps, [*outputs, *(each for each in self._hidden if each.name in (wanted or ()))])
