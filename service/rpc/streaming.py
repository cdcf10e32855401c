"""The messages of AttendStream, for one instance: what is to come, chunk after chunk of it, and an end."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock

import numpy as np

from bundle.errors import TooLargeError
from bundle.maps import MapWeights, Projected
from bundle.rows import Labels
from bundle.values import Array
from limelight.v1.service_pb2 import (
    AttendStreamEnd,
    AttendStreamResponse,
    AttendStreamStart,
    AttentionChunk,
    StreamedMap,
)
from service.attention.apply import apply
from service.attention.labels import key_groups_of, planned_labels
from service.attention.options import HeadReduction
from service.attention.part import Finished
from service.attention.plan import AttentionPlan, is_signed
from service.attention.select import IndexList, IndexUnion, SelectedMap, indices
from service.attention.size import row_bytes
from service.engine.chunks import ChunkRow, cut_points
from service.engine.types import Answer, MapKey
from service.rpc.build import frame_prediction
from service.rpc.framing import Frame
from service.rpc.maps import map_header, put_arrays
from service.rpc.prepare import CallOptions, PreparedInstance
from service.rpc.room import Room, Written
from service.rpc.view import ModelView

# Tags, shapes and small fields of a chunk.
CHUNK_FRAME = 256
Finish = Callable[[Answer], Written]


@dataclass(frozen=True)
class _Whole:
    """A map to be sent. heads, queries: indices of those that are."""

    place: int
    selected: SelectedMap
    key: MapKey
    source: MapWeights | Projected
    heads: Array
    queries: Array
    keys: int
    features: int


class InstanceStream:
    """One instance's part of a stream. Its methods run on whatever threads compute it.

    chunk_bytes: that a chunk may have, and what is computed for it. room: for large messages. weights: bytes of weights
    sent so far.
    """

    def __init__(
        self,
        view: ModelView,
        prepared: PreparedInstance,
        place: int,
        options: CallOptions,
        chunk_bytes: int,
        room: Room,
    ) -> None:
        assert options.plan is not None
        self._view = view
        self._prepared = prepared
        self._place = place
        self._options = options
        self._plan: AttentionPlan = options.plan
        self._chunk_bytes = chunk_bytes
        self._room = room
        self._maps: list[_Whole] = []
        self._labels: dict[str, Labels] = {}
        self._lock = Lock()
        self._end = AttendStreamEnd()

    @property
    def weights(self) -> int:
        """Bytes of weights framed so far."""
        return self._end.weights_bytes

    @property
    def nanoseconds(self) -> int:
        """What framing chunks has taken so far."""
        return self._end.encode_nanoseconds

    def begin(self, _: int, answer: Answer) -> Written:
        """Frame the first message, and keep of the answer what the chunks are made of.

        Raises: TooLargeError; InputError where the answer lacks an index that was asked for.
        """
        self._labels = dict(answer.labels)
        self._maps = [self._whole(number, each, answer) for number, each in enumerate(self._plan.selected)]
        made = planned_labels(self._plan.key_groups)
        prediction = frame_prediction(self._view, self._prepared, answer, self._options, made)
        start = Frame()
        start.put(AttendStreamStart.PREDICTION_FIELD_NUMBER, prediction)
        for whole in self._maps:
            start.put(AttendStreamStart.MAPS_FIELD_NUMBER, self._streamed(whole))
        if start.size > self._options.limit:  # only where an axis has no limit in the model's description
            raise TooLargeError(
                "instances", f"need a message of {start.size} bytes; at most {self._options.limit} are allowed"
            )
        return self._event(AttendStreamResponse.START_FIELD_NUMBER, start)

    def chunks(self) -> Iterator[tuple[ChunkRow, Finish]]:
        """Give every chunk to compute, in order, each with what frames it. A map is let go of with its last chunk."""
        self._maps.reverse()
        while self._maps:
            whole = self._maps.pop()
            for heads, queries in self._cuts(whole):
                own = whole.heads[slice(*heads)], whole.queries[slice(*queries)]
                sizes = {"weights": len(own[0]) * len(own[1]) * whole.keys}
                row = ChunkRow(
                    {}, sizes, self._labels, key=whole.key, source=whole.source, heads=own[0], queries=own[1]
                )
                yield row, partial(self._chunk, whole.place, whole.selected, row, heads[0], queries[0])

    def end(self) -> Written:
        """Frame the last message."""
        return self._event(AttendStreamResponse.END_FIELD_NUMBER, Frame(self._end.SerializeToString()))

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

    def _streamed(self, whole: _Whole) -> bytes:
        plan, selected = self._plan, whole.selected
        description, options = selected.description, plan.options
        wanted = indices(selected.keys, whole.keys, f"keys of {description.name}")
        keys = whole.keys if wanted is None else len(wanted)
        key_labels = description.key_labels
        _, groups = plan.groups_of(description)
        if groups is not None:
            wanted, keys, key_labels = None, len(groups.names), key_groups_of(groups.label_set)
        heads = len(whole.heads) if options.reduce_heads is HeadReduction.NONE else 1
        header = map_header(
            description,
            options.quantity,
            heads=selected.heads,
            reduction=options.reduce_heads,
            queries=None if selected.queries is None else whole.queries,
            keys=wanted,
            query_labels=description.query_labels,
            key_labels=key_labels,
            normalised=False,
            signed=is_signed(description, options.quantity),
        )
        shape = [heads, len(whole.queries), keys, *([whole.features] if whole.features else [])]
        return StreamedMap(map=header, shape=shape).SerializeToString()

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
            of_all = np.bincount(
                source.query_index, minlength=self._labels[whole.selected.description.query_labels].size
            )
            return of_all[whole.queries]
        return np.full(len(whole.queries), whole.keys)

    def _chunk(
        self, place: int, selected: SelectedMap, row: ChunkRow, head: int, query: int, answer: Answer
    ) -> Written:
        """Frame a chunk, on the lane that computed it."""
        started = time.perf_counter_ns()
        queries = IndexUnion((IndexList("", tuple(row.queries.tolist())),))
        selected = replace(selected, heads=tuple(row.heads.tolist()), queries=queries)
        (finished,) = apply(replace(self._plan, selected=(selected,)), answer.maps, answer.labels).maps
        data = self._event(AttendStreamResponse.CHUNK_FIELD_NUMBER, _frame_chunk(place, head, query, row, finished))
        if len(data) > self._options.limit:
            raise TooLargeError(
                "attention", f"needs a message of {len(data)} bytes; at most {self._options.limit} are allowed"
            )
        with self._lock:
            end = self._end
            end.chunks += 1
            end.weights_bytes += finished.weights.nbytes
            end.queue_nanoseconds += answer.timing.queue
            end.compute_nanoseconds += answer.timing.compute
            end.encode_nanoseconds += time.perf_counter_ns() - started
        return data

    def _event(self, number: int, message: Frame) -> Written:
        whole = Frame(AttendStreamResponse(instance=self._place).SerializeToString())
        whole.put(number, message)
        return whole.written(self._room)


def _has_edges(source: MapWeights | Projected) -> bool:
    return isinstance(source, MapWeights) and source.query_index is not None


def _frame_chunk(place: int, head: int, query: int, row: ChunkRow, finished: Finished) -> Frame:
    small = AttentionChunk(
        map=place,
        first_head=head,
        heads=finished.weights.shape[0],
        first_query=query,
        queries=len(row.queries),
        normalised=finished.part.normalised,
    )
    frame = Frame(small.SerializeToString())
    put_arrays(frame, AttentionChunk, finished)
    return frame
