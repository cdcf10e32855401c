"""Events of AttendStream: for each instance a start, chunks of maps, an end; and their assembly."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from limelight.attended import Attended
from limelight.enums import name_of
from limelight.labels import LabelSet
from limelight.maps import AttentionMap, Edges, axis_labels, read_map
from limelight.predictions import Prediction, read_prediction
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
    """Reads the messages of one stream. It keeps the fields that only the first message of an instance has."""

    def __init__(self, instances: Sequence[values_pb2.Instance]) -> None:
        self._instances = instances
        self._headers: Sequence[service_pb2.StreamedMap] = ()
        self._maps: tuple[StreamedMap, ...] = ()
        self._label_sets: Mapping[str, LabelSet] = {}

    def read(self, message: service_pb2.AttendStreamResponse) -> StreamEvent:
        """Read the next event. Raises ValueError for an inconsistent message."""
        kind = message.WhichOneof("event")
        if not 0 <= message.instance < len(self._instances):
            raise ValueError(f"the server answered instance {message.instance}, but {len(self._instances)} were sent")
        if kind == "start":
            prediction = read_prediction(message.start.prediction, self._instances[message.instance])
            self._headers, self._label_sets = message.start.maps, prediction.label_sets
            self._maps = tuple(_described(each, self._label_sets) for each in self._headers)
            return StreamStart(message.instance, prediction, self._maps)
        if kind == "chunk":
            return self._chunk(message.instance, message.chunk)
        if kind == "end":
            end = message.end
            times = (end.queue_nanoseconds / 1e6, end.compute_nanoseconds / 1e6, end.encode_nanoseconds / 1e6)
            return StreamEnd(message.instance, end.chunks, end.weights_bytes, *times)
        raise ValueError("the event is of a kind unknown to this client; update the client")

    def _chunk(self, instance: int, chunk: service_pb2.AttentionChunk) -> MapChunk:
        if not 0 <= chunk.map < len(self._maps):
            raise ValueError(f"a chunk of map {chunk.map} of {len(self._maps)}")
        header, whole = self._headers[chunk.map].map, self._maps[chunk.map]
        head = slice(chunk.first_head, chunk.first_head + chunk.heads)
        query = slice(chunk.first_query, chunk.first_query + chunk.queries)
        for places, size, what in ((head, whole.shape[0], "heads"), (query, whole.shape[1], "queries")):
            if not 0 <= places.start <= places.stop <= size:
                raise ValueError(f"a chunk with the {what} {places.start} to {places.stop} of {size}")
        message = attention_pb2.AttentionMap()
        message.CopyFrom(header)
        message.normalised = chunk.normalised
        if not header.head_reduction:
            message.heads[:] = header.heads[head]
        for name in ("weights", "scales", "query_index", "key_index", "left_out"):
            if chunk.HasField(name):
                getattr(message, name).CopyFrom(getattr(chunk, name))
        labels = whole.query.take(range(query.start, query.stop))
        part = read_map(message, self._label_sets, query=labels, key=whole.key)
        return MapChunk(instance, chunk.map, head, query, part)


def put_together(events: Iterable[StreamEvent]) -> list[Attended]:
    """Collect a whole stream in memory: one answer an instance, as `attend` returns.

    Raises:
        ValueError: a chunk is missing.
    """
    answers = []
    start, chunks = None, list[list[MapChunk]]()
    for event in events:
        if isinstance(event, StreamStart):
            start, chunks = event, [[] for _ in event.maps]
        elif isinstance(event, MapChunk):
            chunks[event.index].append(event)
        elif start is not None:
            maps = tuple(whole_map(each, parts) for each, parts in zip(start.maps, chunks, strict=True) if parts)
            answers.append(Attended(start.prediction, maps))
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
    if len(shape) < 3 or min(shape) < 0 or shape[1:3] != (len(query), len(key)):
        raise ValueError(
            f"map {header.name!r} has the shape {list(shape)} for {len(query)} queries and {len(key)} keys"
        )
    if shape[0] != (1 if header.head_reduction else len(header.heads)):
        raise ValueError(f"map {header.name!r} has the shape {list(shape)} for the heads {list(header.heads)}")
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
