"""Everything that passes the boundary between processes arrives as it was, and nothing else is taken for it."""

import fcntl
import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import msgspec
import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from limelight.v1 import attention_pb2
from limelight_bundle.rows import Labels, Row
from limelight_service.attention.hidden import HiddenRequest, VectorPooling
from limelight_service.attention.options import (
    Encoding,
    Group,
    Grouping,
    GroupReduction,
    HeadReduction,
    Options,
    Pooling,
    PoolReduction,
    Selection,
    Span,
)
from limelight_service.ipc import boundary, wire
from limelight_service.ipc.boundary import (
    ChunkResult,
    FinishReason,
    GenerationBegun,
    GenerationSettings,
    GraphStatus,
    InferenceRequest,
    MapResult,
    Reading,
    RowResult,
    SequenceResult,
    ServedModel,
    Strategy,
    StreamBegun,
    StreamedMap,
    Timing,
    TokenResult,
)
from limelight_service.ipc.connection import Packet

DTYPES = [np.float32, np.float16, np.float64, np.uint8, np.int32, np.int64, np.bool_]
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
numbers = st.integers(-(2**63), 2**63 - 1)
counts = st.integers(0, 2**63 - 1)
seeds = st.none() | st.integers(0, 2**64 - 1)
floats = st.floats(allow_nan=False)


def several(of: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=most).map(tuple)


def names(record: Any) -> list[str]:
    """Name the fields of a struct or a dataclass."""
    return list(getattr(record, "__struct_fields__", ())) or [each.name for each in fields(record)]


def of(record: type, /, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a record, every field of which has to be named: one that is new is not forgotten here."""
    assert set(names(record)) == set(parts), record
    return st.builds(record, **parts)


arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
)
maybe = st.none() | arrays
timings = of(Timing, queue=counts, compute=counts, admitted=counts, first=counts, others=counts)
integers = st.lists(numbers, max_size=3)
grids = st.none() | st.builds(attention_pb2.Grid, rows=st.integers(1, 9), columns=st.integers(1, 9))
labels = of(
    Labels,
    name=words,
    kind=st.integers(0, 9),
    size=st.integers(0, 99),
    texts=st.lists(words, max_size=3),
    starts=integers,
    ends=integers,
    ids=integers,
    special=st.lists(st.booleans(), max_size=3),
    parents=integers,
    parent=words,
    inputs=several(words),
    input_indices=integers,
    grid=grids,
    words=integers,
)
# Preprocessing makes some columns as arrays.
prepared_labels = labels | st.builds(lambda one: replace(one, starts=np.array(one.starts, np.int64)), labels)
maps = of(
    MapResult,
    name=words,
    normalised=st.booleans(),
    signed=st.booleans(),
    heads=integers,
    head_reduction=st.sampled_from(HeadReduction),
    query_labels=words,
    key_labels=words,
    weights=arrays,
    queries=maybe,
    keys=maybe,
    scales=maybe,
    query_index=maybe,
    key_index=maybe,
    left_out=maybe,
)
tops = st.none() | of(
    boundary.TopTokens,
    per_step=counts,
    token_ids=several(numbers),
    texts=several(words),
    log_probabilities=several(floats),
)
sequences = of(
    boundary.Sequence,
    token_ids=several(numbers),
    log_probabilities=several(floats),
    text=words,
    finish_reason=st.sampled_from(FinishReason),
    score=floats,
    forced=counts,
    top=tops,
)
readings = of(Reading, name=words, token_ids=arrays, texts=st.lists(words, max_size=3), log_probabilities=arrays)
results = of(
    RowResult,
    outputs=st.dictionaries(words, arrays, max_size=2),
    graph=words,
    batch_rows=counts,
    timing=timings,
    maps=several(maps, 2),
    labels=several(labels, 2),
    derived_labels=several(labels, 1),
    seed=seeds,
    sequences=several(sequences),
    other_sequences=several(of(SequenceResult, maps=several(maps, 1), labels=several(labels, 1)), 2),
    reduce_nanoseconds=counts,
    readings=several(readings, 2),
    cached=st.booleans(),
)
begun = of(GenerationBegun, seed=seeds, labels=several(labels))
tokens = of(
    TokenResult,
    index=counts,
    token_id=numbers,
    text=words,
    delta=words,
    log_probability=floats,
    maps=several(maps, 2),
    forced=st.booleans(),
    top=tops,
)
streams = of(StreamBegun, result=results, maps=several(of(StreamedMap, queries=arrays, keys=counts)))
chunks = of(
    ChunkResult,
    place=counts,
    first_head=counts,
    first_query=counts,
    queries=counts,
    map=maps,
    timing=timings,
    reduce_nanoseconds=counts,
)
groups = of(
    Group,
    name=words,
    indices=several(numbers),
    ranges=several(st.tuples(numbers, numbers)),
    spans=several(of(Span, start=numbers, end=numbers, sentence=st.none() | counts, part=words)),
    inputs=several(words),
)
paths = st.lists(words | st.integers(0, 9)).map(tuple)
groupings = of(
    Grouping, field=paths, groups=several(groups), reduction=st.sampled_from(GroupReduction), label_set=words
)
options = of(
    Options,
    selections=several(
        of(
            Selection,
            names=several(words),
            layers=several(numbers),
            heads=several(numbers),
            queries=several(numbers),
            keys=several(numbers),
        )
    ),
    quantity=st.integers(0, 3),
    reduce_heads=st.sampled_from(HeadReduction),
    rollout=st.booleans(),
    query_groups=several(groupings, 1),
    key_groups=several(groupings, 1),
    pool=st.none() | of(Pooling, size=st.integers(1, 99), reduction=st.sampled_from(PoolReduction)),
    top_k=counts,
    encoding=st.sampled_from(Encoding),
    sequences=st.integers(1, 9),
)
generations = of(
    GenerationSettings,
    strategy=st.sampled_from(Strategy),
    temperature=floats,
    top_k=counts,
    top_p=floats,
    max_new_tokens=counts,
    stop=several(words),
    beams=st.integers(1, 16),
    length_penalty=floats,
    hypotheses=st.integers(1, 4),
    continue_target=st.booleans(),
    top_logprobs=st.integers(0, 20),
)
rows = of(
    Row,
    tensors=st.dictionaries(words, arrays, max_size=2),
    sizes=st.dictionaries(words, counts, max_size=2),
    labels=several(prepared_labels).map(lambda sets: {each.name: each for each in sets}),
    truncated=st.booleans(),
    tokens=st.dictionaries(words, prepared_labels, max_size=2),
)
hidden = of(
    HiddenRequest,
    names=several(words),
    positions=several(numbers),
    pooling=st.sampled_from(VectorPooling),
    top_tokens=counts,
)
requests = of(
    InferenceRequest,
    model=words,
    version=counts,
    rows=several(rows),
    seeds=several(seeds),
    outputs=st.frozensets(words, max_size=3),
    attention=st.none() | options,
    generation=st.just(GenerationSettings()) | generations,
    deadline=st.none() | floats,
    tokens=st.frozensets(words, max_size=3),
    steps=counts,
    hidden=st.none() | hidden,
)
served = of(
    ServedModel,
    name=words,
    version=counts,
    digest=words,
    provider=words,
    folder=words,
    bundle=st.binary(max_size=20),
    graph_bytes=st.dictionaries(words, counts, max_size=2),
    stamps=st.dictionaries(words, st.tuples(*[counts] * 5), max_size=2),
    origin=words,
    graphs=several(of(GraphStatus, name=words, provider=words, nodes=st.dictionaries(words, counts, max_size=2)), 2),
    projected=st.dictionaries(words, st.tuples(counts, words, counts), max_size=2),
    max_rows=counts,
    max_tokens=counts,
    workers=counts,
)


def assert_same(one: Any, other: Any) -> None:
    """Compare values; sequences by what is in them, arrays by type and bytes too."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    elif is_dataclass(one) or isinstance(one, msgspec.Struct):
        assert type(one) is type(other)
        for name in names(one):
            assert_same(getattr(one, name), getattr(other, name))
    elif isinstance(one, Mapping):
        assert list(one) == list(other)
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, Sequence | np.ndarray) and not isinstance(one, str | bytes):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    else:
        assert one == other


def unpacked(packet: Packet, kind: Any) -> Any:
    return wire.Unpacker(kind).unpack(packet.data, tuple(os.dup(each.number) for each in packet.descriptors))


def returned(message: wire.Wire) -> Any:
    """Give a message as a frontend gets it."""
    return unpacked(wire.pack(message), wire.ToFrontend)


@given(results | begun | tokens | streams | chunks)
def test_events_of_calls_arrive(event: Any) -> None:
    message = returned(wire.Event(7, 3, event))
    assert (message.call, message.index) == (7, 3)
    assert_same(message.content, event)


@settings(max_examples=50)
@given(results)
def test_a_result_that_is_kept_is_the_same_and_nobody_can_change_it(result: RowResult) -> None:
    kept = wire.from_bytes(wire.to_bytes(result))
    assert_same(kept, result)
    assert not any(each.flags.writeable for each in kept.outputs.values())


_DICTS = ("tensors", "sizes", "tokens")


@settings(max_examples=50)
@given(requests)
def test_rows_have_the_same_fingerprint_where_an_engine_is_told_the_same(request: InferenceRequest) -> None:
    request = replace(request, seeds=(None,) * len(request.rows), deadline=None)
    rows = [replace(row, **{name: dict(sorted(vars(row)[name].items())) for name in _DICTS}) for row in request.rows]
    told = [wire.pack(wire.submit(0, 0, replace(request, rows=(row,), seeds=(None,)))).data for row in rows]
    keys = wire.fingerprints(request, ("owner",))
    for place, key in enumerate(keys):
        assert [key == each for each in keys] == [told[place] == each for each in told]


@given(served)
def test_announcements_of_models_arrive(model: ServedModel) -> None:
    message = returned(wire.ModelChanged("m", 1, "ready", "", model))
    assert_same(message.served, model)


@given(requests)
def test_requests_arrive_with_what_an_engine_needs_of_label_sets(request: InferenceRequest) -> None:
    message = unpacked(wire.pack(wire.submit(7, 1, request, 99)), wire.ToEngine)
    assert (message.call, message.mode, message.chunk_bytes) == (7, 1, 99)
    rows = tuple(_for_engine(row, request) for row in request.rows)
    expected = replace(request, rows=rows, tokens=frozenset())
    assert_same(wire.request_of(message), expected)


def _for_engine(row: Row, request: InferenceRequest) -> Row:
    """No labels without attention, and columns only where groups name entries by them; the tokens that are named."""
    attention = request.attention
    tokens = {name: row.tokens[name] for name in request.tokens if name in row.tokens}
    if attention is None:
        return Row(row.tensors, row.sizes, tokens=tokens)
    named = [group for each in (*attention.query_groups, *attention.key_groups) for group in each.groups]
    if any(each.spans or each.inputs for each in named):
        return replace(row, truncated=False, tokens=tokens)
    sizes = {name: Labels(name, each.kind, each.size) for name, each in row.labels.items()}
    return Row(row.tensors, row.sizes, sizes, tokens=tokens)


LARGE = RowResult(
    {
        "large": np.arange(10**5, dtype=np.float32).reshape(100, 1000),
        "sliced": np.arange(10**6, dtype=np.int64).reshape(1000, 1000)[::2, 100:],
        "small": np.arange(3, dtype=np.uint8),
    },
    "main",
    1,
    Timing(0, 0),
)


def test_large_arrays_are_mapped_and_not_copied_through_the_socket() -> None:
    packet = wire.pack(wire.Event(1, 0, LARGE))
    assert len(packet.data) < 1000 and len(packet.descriptors) == 1
    result = unpacked(packet, wire.ToFrontend).content
    assert_same(result, LARGE)
    assert not result.outputs["large"].flags.writeable


def test_without_shared_memory_large_arrays_go_through_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    _assert_inline(wire.pack(wire.Event(1, 0, LARGE)))


def test_where_files_may_not_be_as_large_arrays_go_through_the_socket() -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        packet = wire.pack(wire.Event(1, 0, LARGE))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    _assert_inline(packet)


def _assert_inline(packet: Packet) -> None:
    assert not packet.descriptors
    assert_same(unpacked(packet, wire.ToFrontend).content, LARGE)


REFUSED = (msgspec.MsgspecError, ValueError, OSError, DecodeError)


@settings(max_examples=300)
@given(st.sampled_from([wire.ToFrontend, wire.ToEngine]), st.binary(max_size=100))
def test_bytes_that_are_no_message_are_refused(kind: Any, data: bytes) -> None:
    with pytest.raises(REFUSED):
        wire.Unpacker(kind).unpack(data, ())


ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | floats | words | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=2),
    max_leaves=6,
)
DTYPE_NAMES = st.sampled_from(["<f4", "|O", "O", "f4,f4", "<M8[s]", "|V8", "", "<U9", "x"]) | words
ODD_ARRAYS = ODD | st.tuples(
    DTYPE_NAMES | ODD, st.lists(st.integers(-(2**63), 2**64 - 1), max_size=3) | ODD, st.binary(max_size=8) | ODD
)


def sealed(data: bytes) -> int:
    """Make a memory file as senders do."""
    descriptor = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(descriptor, data)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE)
    return descriptor


def streaming(array: Any) -> bytes:
    """Encode an event with this in place of its one array."""
    event = StreamBegun(RowResult({}, "", 1, Timing(0, 0)), (StreamedMap(np.zeros(0), 1),))
    encoded = wire.pack(wire.Event(1, 0, event)).data
    content = msgspec.msgpack.decode(encoded)
    content[-1][-1][0][0] = array
    return msgspec.msgpack.encode(content)


@settings(max_examples=500)
@given(ODD_ARRAYS, st.booleans())
def test_an_array_that_is_none_is_refused(odd: Any, shared: bool) -> None:
    """Whatever stands in place of an array, with memory beside it and without."""
    message = streaming(odd)
    descriptors = ()
    if shared:
        descriptors = (sealed(bytes(64)),)
    try:
        found = wire.Unpacker(wire.ToFrontend).unpack(message, descriptors)
    except REFUSED:
        return
    array = found.content.maps[0].queries
    assert isinstance(array, np.ndarray) and not array.dtype.hasobject and array.nbytes <= 64


@pytest.mark.parametrize("data", [b"", b"\x00"], ids=["empty", "smaller than the array"])
def test_memory_that_lacks_the_array_is_refused(data: bytes) -> None:
    message = streaming(["<f4", [8], 0])
    descriptor = sealed(data)
    with pytest.raises(REFUSED):
        wire.Unpacker(wire.ToFrontend).unpack(message, (descriptor,))
    with pytest.raises(OSError, match="Bad file descriptor"):  # it is closed all the same
        os.fstat(descriptor)


def test_memory_that_its_sender_could_still_change_is_refused() -> None:
    (descriptor,) = wire.pack(wire.Event(1, 0, LARGE)).descriptors
    with pytest.raises(OSError, match="not permitted"):
        os.pwrite(descriptor.number, b"x", 0)
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(descriptor.number, 0)
    copied = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(copied, bytes(64))
    with pytest.raises(ValueError, match="not sealed"):
        wire.Unpacker(wire.ToFrontend).unpack(streaming(["<f4", [8], 0]), (copied,))
