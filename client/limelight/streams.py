"""Events of AttendStream: for each instance a start, chunks of maps, an end; and their assembly."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from limelight.attended import Attended
from limelight.base.enums import name_of
from limelight.labels import LabelSet
from limelight.maps import MOST_VALUES, AttentionMap, Edges, axis_labels, read_map
from limelight.predictions import Prediction, check_count, read_prediction
from limelight.records import Record
from limelight.v1 import attention_pb2, service_pb2, values_pb2


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class StreamedMap(Record):
    """A map of a stream. Its fields are those of `AttentionMap`."""

    _array = "it describes one that comes in chunks"

    name: str
    stack: str
    layer: int | None
    kind: str
    heads: tuple[int, ...]
    query: LabelSet
    key: LabelSet
    shape: tuple[int, ...]
    """Shape of the whole map: [head, query, key] (and feature), also for maps of edges and maps cut by `top_k`."""


@dataclass(frozen=True, eq=False, repr=False)
class StreamStart(Record):
    """The first event of an instance."""

    instance: int
    prediction: Prediction
    maps: tuple[StreamedMap, ...]
    """The maps of the stream, in order."""
    instances: int = 1
    """Number of instances of the call."""


@dataclass(frozen=True, eq=False, repr=False)
class MapChunk(Record):
    """Some heads and queries of a map. `part` is a map of these; the slices give its position in the whole map."""

    _array = "its `part` is"

    instance: int
    index: int
    """One of the start event's maps."""
    head: slice
    query: slice
    part: AttentionMap


@dataclass(frozen=True)
class StreamEnd(Record):
    """The last event of an instance: the stream is complete. Times are in milliseconds, summed over chunks."""

    instance: int
    chunks: int
    weights_bytes: int
    queue_ms: float
    compute_ms: float
    encode_ms: float


StreamEvent: TypeAlias = StreamStart | MapChunk | StreamEnd


class StreamReader:
    """Reads the messages of one stream. It keeps the fields that only the first message of an instance has.

    Instances come in order, each with a start, chunks and an end. Chunks come in order of map, head and query, without
    gaps: where an instance has ended, every weight of its maps has come once.
    """

    def __init__(self, instances: Sequence[values_pb2.Instance]) -> None:
        self._instances = instances
        self._number, self._is_started = 0, False
        self._headers: Sequence[attention_pb2.AttentionMap] = ()
        self._maps: tuple[StreamedMap, ...] = ()
        self._label_sets: Mapping[str, LabelSet] = {}
        # The map that comes, the heads of it that come, how many of their queries have come, and the form of its parts.
        self._map, self._heads, self._queries = 0, (0, 0), 0
        self._form: object = None

    def read(self, message: service_pb2.AttendStreamResponse) -> StreamEvent:
        """Read the next event. Raises ValueError for a message that is inconsistent, or not the next."""
        kind = message.WhichOneof("event")
        if kind is None:
            raise ValueError("the event is of a kind unknown to this client; update the client")
        if message.instance != self._number or self._number >= len(self._instances):
            raise ValueError(f"an event of instance {message.instance} of {len(self._instances)} is not the next one")
        if (kind == "start") is self._is_started:
            raise ValueError(f"instance {self._number} has {'a second' if self._is_started else 'no'} start")
        if kind == "start":
            return self._start(message.start)
        if kind == "chunk":
            return self._chunk(message.chunk)
        self._check_maps(len(self._maps))
        self._number, self._is_started = self._number + 1, False
        end = message.end
        times = (end.queue_nanoseconds / 1e6, end.compute_nanoseconds / 1e6, end.encode_nanoseconds / 1e6)
        return StreamEnd(message.instance, end.chunks, end.weights_bytes, *times)

    def check_end(self) -> None:
        """Check that every instance is complete. Raises ValueError."""
        if self._number < len(self._instances):
            raise ValueError(f"the stream ended before instance {self._number} was complete")

    def _start(self, start: service_pb2.AttendStreamStart) -> StreamStart:
        check_count(len(start.maps), "maps")
        prediction = read_prediction(start.prediction, self._instances[self._number])
        self._label_sets = prediction.label_sets
        self._maps = tuple(_described(each, self._label_sets) for each in start.maps)
        if len({each.name for each in self._maps}) < len(self._maps):
            raise ValueError("two maps have one name")
        self._headers = [_header(each.map) for each in start.maps]
        self._is_started, self._map, self._heads, self._queries = True, 0, (0, 0), 0
        return StreamStart(self._number, prediction, self._maps, len(self._instances))

    def _chunk(self, chunk: service_pb2.AttentionChunk) -> MapChunk:
        if not self._map <= chunk.map < len(self._maps):
            raise ValueError(f"a chunk of map {chunk.map} of {len(self._maps)}, which is not the next one")
        if chunk.map > self._map:
            self._check_maps(chunk.map)
            self._map, self._heads, self._queries = chunk.map, (0, 0), 0
        header, whole = self._headers[chunk.map], self._maps[chunk.map]
        head = slice(chunk.first_head, chunk.first_head + chunk.heads)
        query = slice(chunk.first_query, chunk.first_query + chunk.queries)
        for places, size, what in ((head, whole.shape[0], "heads"), (query, whole.shape[1], "queries")):
            if not 0 <= places.start < places.stop <= size:
                raise ValueError(f"a chunk with the {what} {places.start} to {places.stop} of {size}")
        begin, end = self._heads
        is_next = (head.start, query.start) == (begin, self._queries) and (not self._queries or head.stop == end)
        if not is_next:
            raise ValueError(f"a chunk of map {whole.name!r} came twice, or another before it is missing")
        message = attention_pb2.AttentionMap()
        message.CopyFrom(header)
        message.normalised = chunk.normalised
        if not header.head_reduction:
            message.heads[:] = whole.heads[head]
        for name in ("weights", "scales", "query_index", "key_index", "left_out"):
            if chunk.HasField(name):
                getattr(message, name).CopyFrom(getattr(chunk, name))
        labels = whole.query.take(range(query.start, query.stop))
        part = read_map(message, self._label_sets, query=labels, key=whole.key)
        form = part.edges is None, part.key_index is None, part.left_out is None
        features = part.weights.shape[3 if part.edges is None else 2 :]
        if part.key_index is None and features != whole.shape[3:]:
            raise ValueError(f"a chunk of map {whole.name!r} has weights {list(part.weights.shape)}")
        if (begin, self._queries) != (0, 0) and form != self._form:
            raise ValueError(f"the chunks of map {whole.name!r} are of different forms")
        self._form = form
        self._heads, self._queries = (head.start, head.stop), query.stop
        if query.stop == whole.shape[1]:
            self._heads, self._queries = (head.stop, head.stop), 0
        return MapChunk(self._number, chunk.map, head, query, part)

    def _check_maps(self, end: int) -> None:
        """Check that the maps before a number are complete. Raises ValueError."""
        for place in range(self._map, end):
            heads, queries = self._maps[place].shape[:2]
            here = self._heads[0] if place == self._map else 0
            if heads * queries and here < heads:
                raise ValueError(f"a chunk of map {self._maps[place].name!r} is missing")


def _header(described: attention_pb2.AttentionMap) -> attention_pb2.AttentionMap:
    """Return what every chunk of a map has, without what is as long as its axes."""
    header = attention_pb2.AttentionMap()
    header.CopyFrom(described)
    for name in ("queries", "keys", *(() if described.head_reduction else ("heads",))):
        header.ClearField(name)
    return header


def put_together(events: Iterable[StreamEvent]) -> list[Attended]:
    """Collect a whole stream in memory: one answer an instance, as `attend` returns.

    Raises:
        ValueError: a chunk is missing, or the stream is not whole.
    """
    answers = []
    start, chunks, instances = None, list[list[MapChunk]](), 0
    for event in events:
        if isinstance(event, StreamStart):
            start, chunks, instances = event, [[] for _ in event.maps], event.instances
        elif start is None:
            raise ValueError("the stream has no start")
        elif isinstance(event, MapChunk):
            chunks[event.index].append(event)
        else:
            maps = tuple(whole_map(each, parts) for each, parts in zip(start.maps, chunks, strict=True) if parts)
            answers.append(Attended(start.prediction, maps))
            start = None
    if len(answers) < instances:
        raise ValueError(f"the stream ended before instance {len(answers)} was complete")
    return answers


def _joined_edges(chunks: Sequence[MapChunk]) -> Edges:
    """Concatenate the edges of a map's chunks, at positions along the axes of the whole map."""
    edges = [(each.part.edges, each.query.start) for each in chunks]
    return Edges(
        np.concatenate([each.query_index + first for each, first in edges if each is not None]),
        np.concatenate([each.key_index for each, _ in edges if each is not None]),
    )


def whole_map(described: StreamedMap, chunks: Sequence[MapChunk]) -> AttentionMap:
    """Assemble a map from all its chunks. Raises ValueError if a chunk is missing."""
    first = chunks[0].part
    if sum((each.head.stop - each.head.start) * (each.query.stop - each.query.start) for each in chunks) != (
        described.shape[0] * described.shape[1]
    ):
        raise ValueError(f"a chunk of map {described.name!r} is missing")
    left_out = None if first.left_out is None else np.empty(described.shape[:2], np.float32)
    edges, key_index = None, None
    if first.edges is not None:
        edges = _joined_edges(chunks)
        weights = np.concatenate([each.part.weights for each in chunks], axis=1)
    elif first.key_index is not None:
        shape = (*described.shape[:2], max(each.part.weights.shape[2] for each in chunks))
        if math.prod(shape) > MOST_VALUES:
            raise ValueError(f"map {described.name!r} has the shape {list(shape)}, of more than {MOST_VALUES} values")
        weights, key_index = np.zeros(shape, np.float32), np.full(shape, -1, np.int64)
    else:
        weights = np.empty(described.shape, np.float32)
    for each in chunks:
        if edges is None:
            weights[each.head, each.query, : each.part.weights.shape[2]] = each.part.weights
        if key_index is not None and each.part.key_index is not None:
            key_index[each.head, each.query, : each.part.weights.shape[2]] = each.part.key_index
        if left_out is not None and each.part.left_out is not None:
            left_out[each.head, each.query] = each.part.left_out
    weights.flags.writeable = False
    return replace(
        first,
        heads=described.heads,
        query=described.query,
        weights=weights,
        edges=edges,
        key_index=key_index,
        left_out=left_out,
        normalised=all(each.part.normalised for each in chunks),
    )


def _described(message: service_pb2.StreamedMap, label_sets: Mapping[str, LabelSet]) -> StreamedMap:
    header, shape = message.map, tuple(message.shape)
    query = axis_labels(header.query_labels, label_sets, header.queries)
    key = axis_labels(header.key_labels, label_sets, header.keys)
    if len(shape) not in (3, 4) or min(shape) < 0 or shape[1:3] != (len(query), len(key)):
        raise ValueError(
            f"map {header.name!r} has the shape {list(shape[:4])} for {len(query)} queries and {len(key)} keys"
        )
    if shape[0] != (1 if header.head_reduction else len(header.heads)):
        raise ValueError(f"map {header.name!r} has the shape {list(shape)} for {len(header.heads)} heads")
    return StreamedMap(
        name=header.name,
        stack=header.stack,
        layer=header.layer if header.HasField("layer") else None,
        kind=name_of(attention_pb2.MapKind, header.kind),
        heads=tuple(header.heads),
        query=query,
        key=key,
        shape=shape,
    )
