"""One instance's maps as a stream of chunks: which parts of each map, in which order, and the reduction of each."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from limelight_bundle.maps import MapWeights, Projected
from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Array
from limelight_service.attention.options import HeadReduction
from limelight_service.attention.plan import AttentionPlan
from limelight_service.attention.select import IndexList, IndexUnion, SelectedMap, indices
from limelight_service.attention.size import row_bytes
from limelight_service.engine.attention.apply import apply
from limelight_service.engine.reduction import map_result, row_result
from limelight_service.engine.runtime.chunks import ChunkRow, cut_points
from limelight_service.engine.types import Answer, MapKey
from limelight_service.ipc.boundary import ChunkResult, InferenceRequest, StreamBegun, StreamedMap

T = TypeVar("T")


@dataclass(frozen=True)
class _Whole:
    """A map to stream. heads, queries: indices of those that are sent. keys: size of the key axis."""

    place: int
    selected: SelectedMap
    key: MapKey
    source: MapWeights | Projected
    heads: Array
    queries: Array
    keys: int
    features: int


class MapStream:
    """The maps of one row. Its methods run on the threads that compute them.

    chunk_bytes: of a chunk, and of what is computed for it.
    """

    def __init__(self, request: InferenceRequest, index: int, plan: AttentionPlan, chunk_bytes: int) -> None:
        self._request = request
        self._row: Row = request.rows[index]
        self._plan = plan
        self._chunk_bytes = chunk_bytes
        self._maps: list[_Whole] = []
        self._labels: dict[str, Labels] = {}

    def begin(self, answer: Answer) -> StreamBegun:
        """Reduce the prediction, and keep of the answer what the chunks are made of.

        Raises: InputError where the answer lacks an index that was asked for.
        """
        self._labels = dict(answer.labels)
        self._maps = [self._whole(place, each, answer) for place, each in enumerate(self._plan.selected)]
        result = row_result(answer, self._row, None, outputs=self._request.outputs)
        return StreamBegun(result, tuple([StreamedMap(each.queries, each.keys) for each in self._maps]))

    def chunks(self, make: Callable[[ChunkResult], T]) -> Iterator[tuple[ChunkRow, Callable[[Answer], T]]]:
        """Give every chunk to compute, in order, each with its reduction. A map is freed with its last chunk."""
        self._maps.reverse()
        while self._maps:
            whole = self._maps.pop()
            for heads, queries in self._cuts(whole):
                own = whole.heads[slice(*heads)], whole.queries[slice(*queries)]
                sizes = {"weights": len(own[0]) * len(own[1]) * whole.keys}
                row = ChunkRow(
                    {}, sizes, self._labels, key=whole.key, source=whole.source, heads=own[0], queries=own[1]
                )
                yield row, partial(self._chunk, make, whole.place, whole.selected, row, heads[0], queries[0])

    def _whole(self, place: int, selected: SelectedMap, answer: Answer) -> _Whole:
        description = selected.description
        key = description.name, self._plan.options.quantity
        source = answer.projected.get(key) or answer.maps[key]
        counted = isinstance(source, Projected) or _has_edges(source)
        queries, keys = (answer.labels[name].size for name in (description.query_labels, description.key_labels))
        if not counted:
            assert isinstance(source, MapWeights)
            queries, keys = source.weights.shape[1:3]
        wanted = indices(selected.queries, queries, f"queries of {description.name}")
        indices(selected.keys, keys, f"keys of {description.name}")
        return _Whole(
            place,
            selected,
            key,
            source,
            np.array(selected.heads),
            np.arange(queries) if wanted is None else wanted,
            keys,
            description.features,
        )

    def _cuts(self, whole: _Whole) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Cut a map into runs of heads and of queries, in order; each has every head where the heads of a query belong
        together.
        """
        options, heads = self._plan.options, len(whole.heads)
        sizes = row_bytes(options, self._entries(whole), whole.features)
        if options.reduce_heads is not HeadReduction.NONE or _has_edges(whole.source):
            for queries in cut_points(sizes * heads, self._chunk_bytes):
                yield (0, heads), queries
            return
        of_head = int(sizes.sum())
        if of_head > self._chunk_bytes:
            for head in range(heads):
                for queries in cut_points(sizes, self._chunk_bytes):
                    yield (head, head + 1), queries
            return
        if len(sizes):
            for run in cut_points(np.full(heads, of_head), self._chunk_bytes):
                yield run, (0, len(sizes))

    def _entries(self, whole: _Whole) -> Array:
        """Count the keys, or edges, of each query that is sent."""
        source = whole.source
        if isinstance(source, MapWeights) and source.query_index is not None:
            size = self._labels[whole.selected.description.query_labels].size
            of_all = np.bincount(source.query_index, minlength=size)
            return of_all[whole.queries]
        return np.full(len(whole.queries), whole.keys)

    def _chunk(
        self,
        make: Callable[[ChunkResult], T],
        place: int,
        selected: SelectedMap,
        row: ChunkRow,
        head: int,
        query: int,
        answer: Answer,
    ) -> T:
        started = time.perf_counter_ns()
        queries = IndexUnion((IndexList((), tuple(row.queries.tolist())),))
        selected = replace(selected, heads=tuple(row.heads.tolist()), queries=queries)
        (finished,) = apply(replace(self._plan, selected=(selected,)), answer.maps, answer.labels).maps
        reducing = time.perf_counter_ns() - started
        result = map_result(finished)
        return make(ChunkResult(place, head, query, len(row.queries), result, answer.timing, reducing))


def _has_edges(source: MapWeights | Projected) -> bool:
    return isinstance(source, MapWeights) and source.query_index is not None
