"""Requests that never end, end late, or are more than they seem: what arrives is bounded, whoever else is honest."""

import gzip
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest

from tests.hostile.capped import Capped, capped, good, health_of
from tests.hostile.wire import HEALTH, SERVICE, Wire, prefix
from tests.kit import bundles
from tests.kit.serving import eventually, predict, text

MEBIBYTE = 2**20
LARGEST = 4 * MEBIBYTE
PLACES = 8
OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 0, 1, 3, 4, 5, 8, 12
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    return folder


@pytest.fixture(scope="module")
def server(repository: Path, frontends: int) -> Iterator[Capped]:
    limits = {"max_request_bytes": LARGEST, "max_arriving_bytes": PLACES * LARGEST}
    with capped(repository, frontends=frontends, limits=limits) as running:
        yield running


def send(connections: list[Wire], streams: list[int], payload: bytes, seconds: float) -> int:
    """Send a payload on several calls at the same time, as far as the server lets them; gives how many bytes went."""
    left, until = [memoryview(payload) for _ in streams], time.monotonic() + seconds
    while time.monotonic() < until:
        moved = 0
        for place, (wire, stream) in enumerate(zip(connections, streams, strict=True)):
            wire.pump(0)
            if not wire.gone and stream not in wire.ended:
                count = wire.put(stream, left[place][:MEBIBYTE])
                left[place] = left[place][count:]
                moved += count
        if not moved:
            time.sleep(0.01)
    return len(streams) * len(payload) - sum(map(len, left))


@pytest.mark.parametrize("path", [f"{SERVICE}Predict", HEALTH, REFLECTION])
def test_uploads_that_never_finish_hold_no_more_than_their_places_and_keep_nobody_out(
    server: Capped, path: str
) -> None:
    many, before = 60, server.resident()
    server.forget_peak()
    with ExitStack() as stack, health_of(server.address) as health:
        connections = [Wire(server.address) for _ in range(many)]
        for each in connections:
            stack.callback(each.close)
        streams = [each.begin(path) for each in connections]
        for wire, stream in zip(connections, streams, strict=True):
            wire.put(stream, prefix(LARGEST))
        send(connections, streams, bytes(LARGEST - MEBIBYTE // 4), seconds=2.0)  # 225 MiB, if they could
        assert good(server.stub)

        def refused() -> bool:
            for each in connections:
                each.pump(0)
            ended = Counter(wire.ended.get(stream) for wire, stream in zip(connections, streams, strict=True))
            refusals = ended[RESOURCE_EXHAUSTED]
            return refusals >= PLACES and refusals + ended[CANCELLED] >= many - PLACES

        assert eventually(refused)
        assert server.peak() - before < 2 * PLACES * LARGEST + 32 * MEBIBYTE
    # On a busy machine a probe stands still itself, now and then, between its headers and its message.
    assert len(health.seconds) > 20 * len(health.failures)
    assert server.alive


def test_a_large_request_finds_a_place_although_others_stand_still_in_all_of_them(server: Capped) -> None:
    large = predict("nothing", text("cat " * (LARGEST // 5)))
    standing = [Wire(server.address) for _ in range(PLACES)]
    streams = [each.begin(f"{SERVICE}Predict") for each in standing]
    for wire, stream in zip(standing, streams, strict=True):
        wire.put(stream, prefix(LARGEST) + bytes(1000))
    time.sleep(0.5)  # those who are not refused now are in a place
    data, wire = large.SerializeToString(), Wire(server.address)

    def comes_through() -> bool:
        """Send it with a pause in the middle, so that it needs a place."""
        stream = wire.begin(f"{SERVICE}Predict")
        if not wire.put_all(stream, prefix(len(data)) + data[:1000]):
            return False
        wire.pump(0.5)
        return wire.put_all(stream, data[1000:], end=True) and wire.wait(stream) == NOT_FOUND

    assert eventually(comes_through, 60)
    for each in [wire, *standing]:
        each.close()


def test_who_gives_up_while_its_request_arrives_is_counted_as_that(repository: Path, frontends: int) -> None:
    with capped(repository, frontends=frontends) as server:
        for _ in range(5):
            wire = Wire(server.address)
            wire.put(wire.begin(f"{SERVICE}Predict"), prefix(1000) + b"half of it")
            wire.pump(0.05)
            wire.close()

        def ends() -> dict[str, float]:
            handled = {name: count for name, count in server.scrape().items() if "server_handled" in name and count}
            return {name.split('grpc_code="')[1].split('"')[0]: count for name, count in handled.items()}

        assert eventually(lambda: ends() == {"CANCELLED": 5})


def test_a_request_that_does_not_arrive_in_its_time_is_ended(repository: Path, frontends: int) -> None:
    with capped(repository, frontends=frontends, limits={"arrival_seconds": 0.5}) as server:
        wire = Wire(server.address)
        silent, begun = wire.begin(f"{SERVICE}Predict"), wire.begin(f"{SERVICE}Generate")
        wire.put(begun, prefix(1000) + b"half of it")
        assert (wire.wait(silent), wire.wait(begun)) == (DEADLINE_EXCEEDED, DEADLINE_EXCEEDED)
        assert good(server.stub)
        wire.close()


def test_one_message_is_read_and_what_follows_is_not(server: Capped) -> None:
    data = predict("tiny", text("the cat")).SerializeToString()
    wire = Wire(server.address)
    stream = wire.begin(f"{SERVICE}Predict")
    wire.put(stream, prefix(len(data)) + data + prefix(LARGEST) + bytes(1000))
    assert wire.wait(stream) == OK
    nothing = wire.begin(f"{SERVICE}Predict")
    wire.put(nothing, b"")
    wire.end(nothing)
    assert wire.wait(nothing) == RESOURCE_EXHAUSTED
    larger = wire.begin(f"{SERVICE}Predict")
    wire.put(larger, prefix(2**30) + bytes(1000))
    assert wire.wait(larger) == RESOURCE_EXHAUSTED
    wire.close()


def entries(message: bytes) -> bytes:
    """As many of one message as the server takes."""
    return message * (LARGEST // len(message))


@pytest.mark.parametrize(
    "data",
    [entries(b"\x12\0"), entries(b"\x12\2\x0a\0"), entries(b"\x22\0"), bytes(LARGEST), b"\xff" * LARGEST],
    ids=["instances", "inputs", "outputs", "zeros", "garbage"],
)
def test_millions_of_fields_are_refused_before_they_are_made(server: Capped, data: bytes) -> None:
    assert good(server.stub)
    before = server.resident()
    server.forget_peak()
    with health_of(server.address) as health:
        wire = Wire(server.address)
        for _ in range(3):
            stream = wire.begin(f"{SERVICE}Predict")
            assert wire.put_all(stream, prefix(len(data)) + data, end=True)
            assert wire.wait(stream) == INVALID_ARGUMENT
        wire.close()
        assert good(server.stub)
    assert server.peak() - before < 8 * LARGEST
    assert health.quantile(0.9) < 2.0 and not health.failures


def test_compressed_requests_are_refused_whatever_they_would_become(server: Capped) -> None:
    bomb, before = gzip.compress(bytes(LARGEST - 100), 9), server.resident()
    assert len(bomb) < LARGEST // 500
    server.forget_peak()
    wire = Wire(server.address)
    streams = [wire.begin(f"{SERVICE}Predict", grpc_encoding="gzip") for _ in range(50)]
    for stream in streams:
        wire.put_all(stream, prefix(len(bomb), compressed=True) + bomb, end=True)
    assert {wire.wait(stream) for stream in streams} == {UNIMPLEMENTED}
    wire.close()
    assert server.peak() - before < 8 * LARGEST
    with pytest.raises(grpc.RpcError, match="'gzip' is disabled"):
        server.stub.Predict(predict("tiny", text("the cat")), compression=grpc.Compression.Gzip)


def test_a_request_of_many_bytes_and_few_fields_is_taken(server: Capped) -> None:
    request = predict("nothing", *[text("the cat sat " * 1000)] * 250)
    assert 2 * MEBIBYTE < request.ByteSize() < LARGEST
    with pytest.raises(grpc.RpcError) as caught:
        server.stub.Predict(request, timeout=60)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND  # type: ignore[attr-defined]  # so it was read
