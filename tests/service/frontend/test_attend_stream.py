"""AttendStream over a real socket: what Attend answers, in chunks, at the pace of whoever reads them."""

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch

from limelight.v1 import attention_pb2, service_pb2, service_pb2_grpc, values_pb2
from limelight_bundle.values import Array
from limelight_bundle.wire import instance_to_wire, to_array
from limelight_export.pipeline import export_model
from tests.kit import bundles, tiny
from tests.kit.serving import Running, attend, eventually, predict, refusal, serving, text
from tests.service.streams import Streamed, attend_stream, read

CHUNK = 4096
LONG, LONGEST = 330, 3000
MAPS = ("encoder.0.self", "encoder.1.self")


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of every small model, and of one that tells what its maps are made of."""
    repository = tmp_path_factory.mktemp("readers")
    for make in bundles.ALL:
        make(repository)
    torch.manual_seed(0)
    export_model(tiny.trained(tiny.LongReader(), tiny.long_reader_card(longest=LONGEST)), repository)
    return repository


@pytest.fixture(scope="module")
def server(readers: Path) -> Iterator[Running]:
    """A server with chunks so small that every map takes several."""
    with serving(readers, chunk_bytes=CHUNK, frontends=1) as running:
        yield running


@pytest.fixture(scope="module")
def usual(readers: Path) -> Iterator[Running]:
    """A server as it is started."""
    with serving(readers, frontends=1) as running:
        yield running


def words(count: int, seed: int = 0) -> str:
    """Draw a text of so many words."""
    return " ".join(np.random.default_rng(seed).choice(tiny.WORDS[:-1], count))


def graph() -> values_pb2.Instance:
    edges = [(0, 1), (1, 2), (2, 0), (3, 1), (4, 4), (1, 4)]
    return instance_to_wire({"graph": bundles.drawn_graph(5, edges, seed=1)})


INSTANCES = {
    "tiny": [text("the cat sat on a mat"), text("cat")],
    "paper": [text("the cat sat. on a mat the dog ran. cat")],
    "echo": [text("the cat sat on a mat")],
    "noisy": [text("the cat sat on a mat")],
    "web": [graph()],
    "long_reader": [text(words(40)), text(words(LONG, 1)), text("cat")],
}
OF_EDGES = ("paper", "web")
FORMS = [
    {},
    {"encoding": attention_pb2.ENCODING_FLOAT16},
    {"encoding": attention_pb2.ENCODING_UINT8},
    {"reduce_heads": attention_pb2.HEAD_REDUCTION_MEAN},
    {"top_k": 2},
    {"top_k": 1, "encoding": attention_pb2.ENCODING_UINT8},
    {"selections": [attention_pb2.MapSelection(heads=[-1], queries=[0, -1], keys=[0])]},
    {"selections": [attention_pb2.MapSelection(heads=[-1], queries=[0])], "encoding": attention_pb2.ENCODING_FLOAT16},
]


def streamed(running: Running, request: service_pb2.AttendRequest) -> list[Streamed]:
    """Ask for a stream of what a request to Attend asks for."""
    return read(running.stub.AttendStream(attend_stream(request)))


def kept(cut: attention_pb2.AttentionMap, uncut: attention_pb2.AttentionMap) -> Array:
    """Read from a map that is not cut what stands where top k kept something, sorted by row; nothing is a zero."""
    weights, keys = to_array(uncut.weights, ""), to_array(cut.key_index, "")
    if uncut.HasField("query_index"):
        query, key = to_array(uncut.query_index, ""), to_array(uncut.key_index, "")
        dense = np.zeros((len(weights), keys.shape[1], max(key.max(), keys.max()) + 1), weights.dtype)
        dense[:, query, key] = weights
        weights = dense
    found = np.take_along_axis(weights, np.maximum(keys, 0), axis=2)
    return np.sort(np.where(keys < 0, 0, found), axis=2)


def assert_same(
    found: attention_pb2.AttentionMap, whole: attention_pb2.AttentionMap, uncut: attention_pb2.AttentionMap
) -> None:
    """Compare a map that came in chunks with the one of Attend: the numbers within what they may differ by, all else
    exactly. Where a weight is rounded, another sum may round otherwise; of equal ones (a word that comes twice), the
    last digit decides which are kept, and then others that are as large in the uncut map will do.
    """
    tied = whole.HasField("left_out") and found.key_index != whole.key_index
    if tied:
        np.testing.assert_allclose(kept(found, uncut), kept(whole, uncut), atol=1e-5)
        for each in (found, whole):
            each.ClearField("key_index")
    for name in ("weights", "scales", "left_out", "query_index", "key_index"):
        assert found.HasField(name) == whole.HasField(name)
        if whole.HasField(name):
            ours, theirs = to_array(getattr(found, name), ""), to_array(getattr(whole, name), "")
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
            if tied:
                ours, theirs = np.sort(ours), np.sort(theirs)
            allowed = 1 if ours.dtype == np.uint8 else 1e-3 if ours.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(ours.astype(np.float64), theirs.astype(np.float64), atol=allowed)
        found.ClearField(name)
        whole.ClearField(name)
    assert found == whole


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "+".join(form) or "whole")
@pytest.mark.parametrize("model", INSTANCES)
def test_a_stream_put_together_is_what_attend_answers(server: Running, model: str, form: dict[str, object]) -> None:
    request = attend(model, *INSTANCES[model], **form)
    try:
        whole = server.stub.Attend(request).results
    except grpc.RpcError as error:
        with pytest.raises(grpc.RpcError) as caught:
            streamed(server, request)
        assert (refusal(caught.value).code, refusal(caught.value).message) == (error.code().name, error.details())  # type: ignore[attr-defined]
        return
    uncut = server.stub.Attend(attend(model, *INSTANCES[model])).results if "top_k" in form else whole
    for found, expected, full in zip(streamed(server, request), whole, uncut, strict=True):
        assert [each.texts for each in found.start.prediction.label_sets] == [
            each.texts for each in expected.prediction.label_sets
        ]
        # Of edges, each chunk has as many places as its own longest row.
        sent, whole_bytes = found.end.weights_bytes, sum(len(each.weights.data) for each in expected.maps)
        assert sent == whole_bytes or ("top_k" in form and model in OF_EDGES and sent < whole_bytes)
        uncut_maps = {each.name: each for each in full.maps}
        for ours, theirs in zip(found.maps(), expected.maps, strict=True):
            assert_same(ours, theirs, uncut_maps[theirs.name])


@pytest.mark.parametrize("encoding", [attention_pb2.ENCODING_FLOAT32, attention_pb2.ENCODING_FLOAT16])
def test_a_row_alone_is_that_of_the_whole_map(server: Running, encoding: attention_pb2.Encoding) -> None:
    rows = [attention_pb2.MapSelection(names=[MAPS[0]], heads=[-1], queries=[0])]
    for instance in INSTANCES["long_reader"]:
        ((some,), (whole,)) = (
            server.stub.Attend(attend("long_reader", instance, encoding=encoding, selections=each)).results[0].maps
            for each in (rows, [attention_pb2.MapSelection(names=[MAPS[0]])])
        )
        found, expected = (to_array(each.weights, "").astype(np.float64) for each in (some, whole))
        np.testing.assert_allclose(found, expected[-1:, :1], atol=1e-3)


def test_no_message_is_larger_than_a_chunk_and_several_make_a_map(server: Running) -> None:
    request = attend("long_reader", text(words(LONG)), selections=[attention_pb2.MapSelection(names=["encoder.*"])])
    messages = list(server.stub.AttendStream(attend_stream(request)))
    chunks = [each.chunk for each in messages if each.HasField("chunk")]
    assert max(each.ByteSize() for each in messages[1:]) <= CHUNK
    assert len(chunks) >= 2 * 4 * LONG**2 * 4 / CHUNK
    order = [(each.map, each.first_head, each.first_query) for each in chunks]
    assert order == sorted(order)


def test_a_message_is_as_small_as_the_caller_says(usual: Running) -> None:
    request = attend("long_reader", text(words(LONG)), selections=[attention_pb2.MapSelection(names=[MAPS[0]])])
    few = read(usual.stub.AttendStream(attend_stream(request)))
    most = 40_000
    many = list(usual.stub.AttendStream(attend_stream(request, max_response_bytes=most)))
    assert max(each.ByteSize() for each in many) <= most
    assert len(few[0].chunks[0]) == 1 < len(many) - 2
    (ours,), (theirs,) = (list(each.maps()) for each in (read(many)[0], few[0]))
    np.testing.assert_allclose(to_array(ours.weights, ""), to_array(theirs.weights, ""), atol=1e-6)


def test_a_client_with_its_usual_limit_gets_maps_of_any_size(usual: Running) -> None:
    request = attend_stream(attend("long_reader", text(words(1200)), selections=[{"names": [MAPS[0]], "heads": [0]}]))
    with grpc.insecure_channel(usual.server.address) as channel:
        stub = service_pb2_grpc.AttentionServiceStub(channel)
        (found,) = read(stub.AttendStream(request))
    (whole,) = found.maps()
    weights = to_array(whole.weights, "")
    assert weights.nbytes == 1200**2 * 4
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-4)


def test_a_stream_has_a_limit_of_its_own(readers: Path) -> None:
    with serving(readers, max_stream_bytes=1_000_000, chunk_bytes=CHUNK) as running:
        request = attend("long_reader", text(words(LONG)))
        with pytest.raises(grpc.RpcError) as caught:
            read(running.stub.AttendStream(attend_stream(request)))
        assert (refusal(caught.value).code, refusal(caught.value).field) == ("RESOURCE_EXHAUSTED", "attention")
        read(running.stub.AttendStream(attend_stream(request, selections=[{"names": [MAPS[0]], "heads": [0]}])))


def longest(*names: str) -> service_pb2.AttendStreamRequest:
    """Ask for some maps of the longest text, 144 MB each."""
    return attend_stream(attend("long_reader", text(words(LONGEST)), selections=[{"names": names or MAPS}]))


def resident() -> int:
    """Read how many bytes this process has in memory, client and server."""
    with open("/proc/self/statm", encoding="ascii") as status:
        return int(status.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_whole_maps_of_a_long_text_take_little_memory(usual: Running) -> None:
    read(usual.stub.AttendStream(attend_stream(attend("long_reader", text(words(LONGEST)), top_k=1))))
    before, most, sent = resident(), 0, 0
    for message in usual.stub.AttendStream(longest()):
        sent += len(message.chunk.weights.data)
        most = max(most, resident())
    assert sent == 2 * 4 * LONGEST**2 * 4
    assert most - before < sent / 2


def test_who_reads_slowly_is_computed_for_slowly_and_holds_nobody_up(usual: Running) -> None:
    before = resident()
    call = usual.stub.AttendStream(longest())
    next(call)
    for _ in range(20):  # all the while nothing is read
        assert len(usual.stub.Predict(predict("long_reader", text("cat"))).predictions) == 1
        time.sleep(0.02)
    assert resident() - before < 2 * 4 * LONGEST**2 * 4 / 2
    call.cancel()


def begun(running: Running, timeouts: Sequence[float | None]) -> Any:
    """A long stream whose first message is there; a busy machine needs one of the longer deadlines for that."""
    for timeout in timeouts:
        call = running.stub.AttendStream(longest(), timeout=timeout)
        try:
            next(call)
        except grpc.RpcError:
            continue
        return call
    raise AssertionError(f"nothing came within {timeouts} s")


@pytest.mark.parametrize("how", ["cancelled", "late"])
def test_who_leaves_frees_what_was_held(readers: Path, how: str) -> None:
    with serving(readers, max_held_bytes=50_000_000) as running:
        call = begun(running, (1.0, 5.0, 25.0) if how == "late" else (None,))
        with pytest.raises(grpc.RpcError) as caught:
            running.stub.AttendStream(longest()).next()
        assert refusal(caught.value).reason == "QUEUE_FULL"
        if how == "cancelled":
            call.cancel()
        else:
            with pytest.raises(grpc.RpcError) as caught:
                for _ in call:
                    time.sleep(0.2)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]

        def answers() -> bool:
            try:
                second = running.stub.AttendStream(longest())
                next(second)
            except grpc.RpcError:
                return False
            second.cancel()
            return True

        assert eventually(answers)
