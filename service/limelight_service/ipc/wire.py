"""Messages between a frontend and an engine as bytes: msgpack, with large arrays in shared memory.

Decoding makes plain values, arrays and the dataclasses of the boundary, and never runs anything that the other process
names.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import Any

import msgspec
import numpy as np

from limelight.v1 import attention_pb2
from limelight_bundle.rows import Labels, Row
from limelight_service.attention.hidden import HiddenRequest
from limelight_service.attention.options import Grouping, Options
from limelight_service.errors import ErrorRecord
from limelight_service.ipc.boundary import (
    ChunkResult,
    GenerationBegun,
    GenerationSettings,
    InferenceRequest,
    RowResult,
    ServedModel,
    StreamBegun,
    TokenResult,
)
from limelight_service.ipc.connection import Descriptor, Packet
from limelight_service.ipc.shared_memory import SharedArrays, mapped

_SHARED = 128 * 1024  # bytes from which an array goes through shared memory
_NUMBERS = re.compile(r"[<>|][biufc]\d{1,2}")  # types of elements, as NumPy names them


class Wire(msgspec.Struct, array_like=True, gc=False, forbid_unknown_fields=True):
    """Base of everything that is encoded: fields by position."""


class WireRow(Wire):
    """One instance as tensors."""

    tensors: dict[str, np.ndarray]
    sizes: dict[str, int]
    labels: list[Labels]
    tokens: dict[str, Labels]


class Submit(Wire, tag=0):
    """Frontend to engine: answer these rows. mode: how the answer comes."""

    call: int
    mode: int
    model: str
    version: int
    rows: list[WireRow]
    seeds: list[int | None]
    outputs: list[str]
    attention: bytes
    generation: bytes
    deadline: float | None
    chunk_bytes: int
    steps: int
    hidden: bytes = b""


class Taken(Wire, tag=1):
    """Frontend to engine: so many events of a stream were sent to the caller."""

    call: int
    events: int


class Cancel(Wire, tag=2):
    """Frontend to engine: nobody waits for a call any more."""

    call: int


class Released(Wire, tag=3):
    """Frontend to engine: no call here uses a version that is gone."""

    name: str
    version: int


class Event(Wire, tag=10):
    """Engine to frontend: an event of a call. index: of its row."""

    call: int
    index: int
    content: RowResult | GenerationBegun | TokenResult | StreamBegun | ChunkResult


class StreamEnded(Wire, tag=15):
    """Engine to frontend: a stream is complete."""

    call: int


class Failure(Wire, tag=16):
    """Engine to frontend: a call ends with an error."""

    call: int
    error: ErrorRecord


class ModelChanged(Wire, tag=17):
    """Engine to frontend: the state of a version. served: where it is ready."""

    name: str
    version: int
    state: str
    reason: str
    served: ServedModel | None


class ModelGone(Wire, tag=18):
    """Engine to frontend: a version was unloaded, and is freed once it is released."""

    name: str
    version: int


class Loaded(Wire, tag=19):
    """Engine to frontend: the models that a start waits for are loaded or refused."""


class Waits(Wire, tag=20):
    """Engine to frontend: wait estimates (seconds, seconds for each further row) by model; also a sign of life."""

    models: dict[str, tuple[float, float]]


ToEngine = Submit | Taken | Cancel | Released
ToFrontend = Event | StreamEnded | Failure | ModelChanged | ModelGone | Loaded | Waits


def pack(message: Wire) -> Packet:
    """Encode a message, from any thread. Large arrays are copied into shared memory."""
    shared = SharedArrays()

    def encode(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return _encode_other(value)
        dtype, shape = value.dtype.str, value.shape
        return (dtype, shape, shared.add(value) if value.nbytes >= _SHARED else value.tobytes())

    data = msgspec.msgpack.encode(message, enc_hook=encode)
    if not shared.size:
        return Packet(data)
    descriptor = shared.write()
    if descriptor is not None:
        return Packet(data, (Descriptor(descriptor),))
    inline = msgspec.msgpack.encode(message, enc_hook=_encode_inline)
    return Packet(inline)


class Unpacker:
    """Decodes messages of one kind. For one thread.

    Raises: msgspec.MsgspecError, ValueError, OSError or DecodeError of protobuf for what is no message of the kind.
    """

    def __init__(self, kind: Any) -> None:
        self._memory: Any = None
        self._decoder = msgspec.msgpack.Decoder(kind, dec_hook=self._decode)

    def unpack(self, data: bytes, descriptors: tuple[int, ...]) -> Any:
        """Decode one packet, and close its descriptors."""
        try:
            self._memory = mapped(descriptors[0]) if descriptors else None
            return self._decoder.decode(data)
        finally:
            self._memory = None
            for each in descriptors:
                os.close(each)

    def _decode(self, kind: Any, value: Any) -> Any:
        if kind is attention_pb2.Grid:
            return attention_pb2.Grid.FromString(value)
        name, shape, where = value
        dtype, count = _dtype(name), prod(shape)
        if isinstance(where, bytes):
            return np.frombuffer(where, dtype).reshape(shape)
        memory = self._memory
        if memory is None or not 0 <= where <= where + count * dtype.itemsize <= len(memory):
            raise ValueError("an array is not in the memory that came with it")
        return np.frombuffer(memory, dtype, count, where).reshape(shape)


@lru_cache(64)
def _dtype(name: str) -> np.dtype[Any]:
    """Give a type of elements by its name. Raises: ValueError for other than numbers and truths."""
    if not _NUMBERS.fullmatch(name):
        raise ValueError(f"arrays of {name!r} are not part of any message")
    return np.dtype(name)


def _encode_inline(value: Any) -> Any:
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else _encode_other(value)


def _encode_other(value: Any) -> Any:
    if isinstance(value, attention_pb2.Grid):
        return value.SerializeToString()
    raise NotImplementedError(f"{type(value).__name__} is not part of any message")


def submit(call: int, mode: int, request: InferenceRequest, chunk_bytes: int = 0) -> Submit:
    """Make the message of a request."""
    attention, by_columns = b"", False
    if request.attention is not None:
        attention, by_columns = _attention(request.attention)
    return Submit(
        call,
        mode,
        request.model,
        request.version,
        [_wire_row(each, request, by_columns=by_columns) for each in request.rows],
        list(request.seeds),
        sorted(request.outputs),
        attention,
        _generation(request.generation),
        request.deadline,
        chunk_bytes,
        request.steps,
        b"" if request.hidden is None else _encoder.encode(request.hidden),
    )


def request_of(message: Submit) -> InferenceRequest:
    """Give the request of a message."""
    return InferenceRequest(
        message.model,
        message.version,
        tuple([_row(each) for each in message.rows]),
        tuple(message.seeds),
        frozenset(message.outputs),
        _options(message.attention) if message.attention else None,
        _settings(message.generation),
        message.deadline,
        steps=message.steps,
        hidden=msgspec.msgpack.decode(message.hidden, type=HiddenRequest) if message.hidden else None,
    )


def fingerprints(request: InferenceRequest, owner: tuple[str, ...]) -> list[bytes]:
    """Hash all that an engine is told of each row but its deadline, and an owner: what has the same hash has the same
    answer, unless something is drawn. For any thread.
    """
    message = submit(0, 0, replace(request, deadline=None))
    rows, seeds, message.rows, message.seeds = message.rows, message.seeds, [], []
    head = blake2b(_in_order.encode((owner, message)), digest_size=32)
    found = []
    for each in zip(rows, seeds, strict=True):
        of_row = head.copy()
        of_row.update(_in_order.encode(each))
        found.append(of_row.digest())
    return found


def to_bytes(result: RowResult) -> bytes:
    """Encode a result alone. For any thread."""
    return _encoder.encode(result)


def from_bytes(data: bytes) -> RowResult:
    """Decode a result, whose arrays cannot be changed. For any thread."""
    result: RowResult = _results.unpack(data, ())
    return result


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_inline)
_in_order = msgspec.msgpack.Encoder(enc_hook=_encode_inline, order="deterministic")
_results = Unpacker(RowResult)
_NO_GENERATION = GenerationSettings()
_PLAIN = (str, int, list, tuple, attention_pb2.Grid, type(None))


@lru_cache(64)
def _attention(options: Options) -> tuple[bytes, bool]:
    """Encode attention options; also tell whether groups name entries by columns of label sets."""
    groupings: Sequence[Grouping] = (*options.query_groups, *options.key_groups)
    by_columns = any(group.spans or group.inputs for each in groupings for group in each.groups)
    return _encoder.encode(options), by_columns


@lru_cache(64)
def _options(data: bytes) -> Options:
    return msgspec.msgpack.decode(data, type=Options)


@lru_cache(64)
def _generation(settings: GenerationSettings) -> bytes:
    return b"" if settings == _NO_GENERATION else _encoder.encode(settings)


@lru_cache(64)
def _settings(data: bytes) -> GenerationSettings:
    return msgspec.msgpack.decode(data, type=GenerationSettings) if data else _NO_GENERATION


def _wire_row(row: Row, request: InferenceRequest, *, by_columns: bool) -> WireRow:
    """Of label sets an engine needs the sizes, and columns only where groups name entries by them, or of a prompt whose
    tokens are among those of a set that grows.
    """
    labels: list[Labels] = []
    if request.attention is not None:
        for each in row.labels.values():
            labels.append(_with_lists(each) if by_columns else Labels(each.name, each.kind, each.size))
    tokens = {name: _with_lists(row.tokens[name]) for name in request.tokens if name in row.tokens}
    return WireRow(dict(row.tensors), dict(row.sizes), labels, tokens)


def _with_lists(labels: Labels) -> Labels:
    """Give a label set whose columns are lists, as they are encoded."""
    columns: dict[str, Any] = {
        name: value.tolist() if isinstance(value, np.ndarray) else list(value)
        for name, value in vars(labels).items()
        if not isinstance(value, _PLAIN)
    }
    return replace(labels, **columns) if columns else labels


def _row(row: WireRow) -> Row:
    return Row(row.tensors, row.sizes, {each.name: each for each in row.labels}, tokens=row.tokens)
