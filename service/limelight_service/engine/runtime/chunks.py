"""Maps too large for one message, a chunk at a time: some heads and queries of one map of one answer.

To the scheduler chunks are rows like any others, of a model beside their own: they wait in a queue of their own, which
has its fair share of the workers, and between two of them a worker is free for other rows.
"""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from limelight_bundle.maps import MapPart, MapWeights, Projected
from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_service.engine.jobs import Job, RowEvent
from limelight_service.engine.policy import Policy
from limelight_service.engine.runtime.finite import is_finite_map, map_problem, not_finite
from limelight_service.engine.runtime.projected_weights import some_weights
from limelight_service.engine.shapes import Shape
from limelight_service.engine.types import Answer, GenerationSettings, MapKey, Timing
from limelight_service.observability.observer import Observed, Observer, Stage

# The cost of a chunk is counted in places of so many weights.
_A_PLACE = 1024


@dataclass(frozen=True, kw_only=True)
class ChunkRow(Row):
    """Some heads and queries of a map, as a row of work.

    Attributes:
        source: the whole map, or its projections.
        heads, queries: ascending, not empty.
    """

    key: MapKey
    source: MapWeights | Projected
    heads: Array
    queries: Array


class Chunks(Observed):
    """Computes chunks of any model's maps, one at a time."""

    def __init__(self, model: str, observer: Observer) -> None:
        self._model = model
        self._observer = observer

    def group(self, row: Row, maps: frozenset[MapKey], parts: Mapping[MapKey, MapPart]) -> Hashable:
        """Give no key: chunks share no batch."""
        return None

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Nothing is drawn."""
        return False

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Compute chunks. Each takes a core for a few milliseconds at most; more cores would not win."""
        for job in jobs:
            started, row = time.monotonic_ns(), job.row
            assert isinstance(row, ChunkRow)
            weights = row.source
            if isinstance(weights, Projected):
                found = some_weights(weights, row.heads, row.queries)
                weights = MapWeights(found, heads=row.heads, queries=row.queries)
            computing = time.monotonic_ns() - started
            self._observer.stage(self._model, Stage.COMPUTE, computing / 1e9)
            timing = Timing(started - job.admitted, computing)
            if isinstance(row.source, Projected) and not is_finite_map(weights.weights, row.key[1]):
                self._observer.not_finite(self._model)
                yield [(job, not_finite(map_problem(*row.key), 0, 1))]
                continue
            yield [(job, Answer({}, {row.key: weights}, row.labels, "", 1, timing))]


def chunk_policy(concurrent: int) -> Policy:
    """Make the policy of chunks: each runs alone."""
    return Policy(max_rows=1, max_tokens=1, max_padding=0, concurrent=concurrent, spread=concurrent, window=8)


def chunk_shape(sizes: Mapping[str, int]) -> Shape:
    """Give the shape of a chunk, by its weights."""
    return Shape(((1 + sizes["weights"] // _A_PLACE,),))


def cut_points(sizes: Array, most: int) -> list[tuple[int, int]]:
    """Cut an axis into runs that are as long as they may be: (first, one past the last).

    sizes: of each place. most: size of a run; a place that is larger is a run by itself.
    """
    ends = np.cumsum(sizes)
    cuts = [0]
    while cuts[-1] < len(ends):
        before = ends[cuts[-1] - 1] if cuts[-1] else 0
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, before + most, side="right"))))
    return list(pairwise(cuts))
