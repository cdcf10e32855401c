"""The maps of AttendStream put together again, as a client would."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from limelight.v1 import attention_pb2, service_pb2
from limelight_bundle.wire import to_array, to_tensor


@dataclass
class Streamed:
    """One instance's part of a stream. chunks: of each map."""

    start: service_pb2.AttendStreamStart
    chunks: list[list[service_pb2.AttentionChunk]]
    end: service_pb2.AttendStreamEnd = field(default_factory=service_pb2.AttendStreamEnd)

    def maps(self) -> Iterator[attention_pb2.AttentionMap]:
        """Put every map together."""
        for each, chunks in zip(self.start.maps, self.chunks, strict=True):
            yield put_together(each, chunks)


def attend_stream(request: service_pb2.AttendRequest, **options: Any) -> service_pb2.AttendStreamRequest:
    """Ask for the same as a request to Attend; options: of attention, beside those that it has."""
    asked = service_pb2.AttendStreamRequest.FromString(request.SerializeToString())
    asked.attention.MergeFrom(attention_pb2.AttentionOptions(**options))
    return asked


def read(messages: Iterable[service_pb2.AttendStreamResponse]) -> list[Streamed]:
    """Read a whole stream, and check the order of what is in it."""
    found: list[Streamed] = []
    for message in messages:
        kind = message.WhichOneof("event")
        if kind == "start":
            assert message.instance == len(found)
            found.append(Streamed(message.start, [[] for _ in message.start.maps]))
        else:
            assert message.instance == len(found) - 1
        if kind == "chunk":
            assert not any(found[-1].chunks[message.chunk.map + 1 :])
            found[-1].chunks[message.chunk.map].append(message.chunk)
        if kind == "end":
            found[-1].end = message.end
            assert message.end.chunks == sum(map(len, found[-1].chunks))
    return found


def put_together(
    streamed: service_pb2.StreamedMap, chunks: list[service_pb2.AttentionChunk]
) -> attention_pb2.AttentionMap:
    """Make of a map's chunks the message that Attend answers with."""
    heads, queries = streamed.shape[:2]
    first, of_rows = chunks[0], np.zeros((heads, queries), np.float32)
    here, scales, left_out = of_rows.copy(), of_rows.copy(), of_rows.copy()
    shape, dtype = list(streamed.shape), to_array(first.weights, "").dtype
    is_cut = first.HasField("key_index") and not first.HasField("query_index")
    if is_cut:  # a query of few edges has fewer places
        shape[2] = max(each.weights.shape[2] for each in chunks)
    whole, keys = np.zeros(shape, dtype), np.full(shape, -1, np.int32)
    for each in chunks:
        place = (
            slice(each.first_head, each.first_head + each.heads),
            slice(each.first_query, each.first_query + each.queries),
        )
        here[place] += 1
        for name, array in (("scales", scales), ("left_out", left_out)):
            if each.HasField(name):
                array[place] = to_array(getattr(each, name), "")
        if not first.HasField("query_index"):
            whole[(*place, slice(each.weights.shape[2]))] = to_array(each.weights, "")
        if is_cut:
            keys[(*place, slice(each.weights.shape[2]))] = to_array(each.key_index, "")
    assert (here == 1).all()
    message = attention_pb2.AttentionMap()
    message.CopyFrom(streamed.map)
    message.normalised = all(each.normalised for each in chunks)
    if first.HasField("query_index"):
        whole = np.concatenate([to_array(each.weights, "") for each in chunks], axis=1)
        for name in ("query_index", "key_index"):
            together = np.concatenate([to_array(getattr(each, name), "") for each in chunks])
            getattr(message, name).CopyFrom(to_tensor(together))
    if is_cut:
        message.key_index.CopyFrom(to_tensor(keys))
    message.weights.CopyFrom(to_tensor(whole))
    for name, array in (("scales", scales), ("left_out", left_out)):
        if first.HasField(name):
            getattr(message, name).CopyFrom(to_tensor(array))
    return message
