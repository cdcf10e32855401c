"""Connections, frames, requests and answers that no honest client makes: those who are there go on, memory stays."""

import gzip
import resource
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import grpc
import pytest

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_service.settings import Settings
from tests.hostile.capped import CAP, Capped, capped, good, health_of
from tests.hostile.wire import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    HEALTH,
    PING,
    RST_STREAM,
    SERVICE,
    SETTINGS,
    Wire,
    fields_of,
    frame,
    prefix,
)
from tests.kit import bundles
from tests.kit.serving import attend, eventually, generate, predict, text

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


@pytest.fixture(scope="module")
def crowded(repository: Path, frontends: int) -> Iterator[Capped]:
    limits = {"idle_seconds": 1}
    with capped(repository, "--max-connections", "50", frontends=frontends, limits=limits) as running:
        yield running


@pytest.fixture
def many_files() -> Iterator[None]:
    """Let this process open a few thousand files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def count(pid: int, what: str) -> int:
    """The number of open files (`fd`) or threads (`task`) of a process."""
    return len(list(Path(f"/proc/{pid}/{what}").iterdir()))


@pytest.mark.parametrize("speaks", [False, True], ids=["silent", "idle"])
def test_connections_past_the_limit_are_closed_and_those_that_are_there_go_on(crowded: Capped, speaks: bool) -> None:
    before = count(crowded.listening, "fd")
    host, port = crowded.address.split(":")
    with ExitStack() as stack, health_of(crowded.address) as health:
        opened = []
        for _ in range(120):
            if speaks:
                opened.append(Wire(crowded.address).socket)
            else:
                opened.append(socket.create_connection((host, int(port)), timeout=30))
            stack.callback(opened[-1].close)
        assert eventually(lambda: sum(map(closed, opened)) >= 70)
        assert count(crowded.listening, "fd") <= before + 50
        assert crowded.scrape()
        answered = len(health.seconds)
        assert eventually(lambda: len(health.seconds) > answered + 10)
        assert not health.failures
        if speaks:  # they are closed for being idle, and others find room
            assert eventually(lambda: sum(map(closed, opened)) == 120, 30)
    assert eventually(lambda: good(crowded.stub), 30)


def closed(one: socket.socket) -> bool:
    """True where the other end hung up."""
    one.setblocking(False)
    try:
        while one.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def test_half_open_connections_to_the_metrics_keep_nobody_from_them(crowded: Capped, many_files: None) -> None:
    before = count(crowded.process.pid, "fd")
    threads = count(crowded.process.pid, "task")
    with ExitStack() as stack:
        for number in range(1500):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", crowded.metrics_port))
            if number % 2:
                with suppress(OSError):
                    one.send(b"GET /metrics HTTP/1.1\r\nX: ")
        assert all(crowded.scrape() for _ in range(5))
        assert count(crowded.process.pid, "fd") <= before + 300
        assert count(crowded.process.pid, "task") <= threads + 300
    assert eventually(lambda: count(crowded.process.pid, "task") <= threads + 10)
    assert eventually(lambda: good(crowded.stub))


LISTED = fields_of(f"{SERVICE}ListModels")
BEGUN = frame(HEADERS, END_HEADERS, 1, fields_of(f"{SERVICE}Predict")) + frame(DATA, 0, 1, prefix(MEBIBYTE))


def calls_of(*after: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """A hundred calls a time, each followed by something."""

    def write(turn: int) -> bytes:
        streams = range(1 + 200 * turn, 201 + 200 * turn, 2)
        return b"".join(
            frame(HEADERS, END_HEADERS, each, LISTED) + b"".join(write(each) for write in after) for each in streams
        )

    return write


FLOODS: dict[str, Callable[[int], bytes]] = {
    "calls": calls_of(lambda each: frame(DATA, END_STREAM, each, prefix(0))),
    "calls that say nothing": calls_of(),
    "calls that are reset": calls_of(lambda each: frame(RST_STREAM, 0, each, struct.pack(">I", 8))),
    "pings": lambda turn: frame(PING, 0, 0, bytes(8)) * 200,
    "settings": lambda turn: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535)) * 200,
    "headers": lambda turn: frame(HEADERS, END_HEADERS, 1 + 2 * turn, LISTED + b"\x00\1a\0" * 3500),
    "headers without end": lambda turn: (
        frame(CONTINUATION, 0, 1, b"\x00\1a\0" * 1000) if turn else frame(HEADERS, 0, 1, LISTED)
    ),
    "the same header": lambda turn: frame(
        HEADERS, END_HEADERS, 1 + 2 * turn, LISTED + b"\x40\1a\x7e" + b"b" * 126 + b"\xbe" * 10_000
    ),
    "empty data": lambda turn: frame(DATA, 0, 1, b"") * 200 if turn else BEGUN,
    "single bytes": lambda turn: frame(DATA, 0, 1, b"x") * 200 if turn else BEGUN,
    "unknown frames": lambda turn: frame(0x77, 0, 0, bytes(16_000)),
}


@pytest.mark.parametrize(
    ("flood", "reads"), [*[(each, True) for each in FLOODS], *[(each, False) for each in ("calls", "pings", "headers")]]
)
def test_a_flood_of_frames_ends_with_its_connection_and_leaves_nothing(
    crowded: Capped, flood: str, reads: bool
) -> None:
    assert eventually(lambda: good(crowded.stub), 30)
    before = crowded.resident()
    crowded.forget_peak()
    until, turn, wire = time.monotonic() + 0.3, 0, Wire(crowded.address)
    with health_of(crowded.address) as health:
        while time.monotonic() < until:
            wire.socket.settimeout(0.3)  # a server that does not read holds this one up: its right
            wire.write(FLOODS[flood](turn))
            if reads:
                wire.drain()
            turn += 1
            if wire.gone:
                wire.close()
                time.sleep(0.02)
                wire, turn = Wire(crowded.address), 0
        wire.close()
        assert eventually(lambda: good(crowded.stub), 30)
    assert health.seconds and not health.failures
    assert crowded.alive and crowded.peak() - before < 256 * MEBIBYTE


def test_who_watches_for_ever_is_one_of_a_bounded_number(repository: Path, frontends: int) -> None:
    with capped(repository, frontends=frontends) as crowded, ExitStack() as stack:
        watchers = [Wire(crowded.address) for _ in range(20)]
        for wire in watchers:
            stack.callback(wire.close)
            for _ in range(Settings().max_calls_per_connection):
                stream = wire.begin(HEALTH.replace("Check", "Watch"))
                wire.put(stream, prefix(0))
            wire.pump(0.1)

        def refused() -> int:
            for wire in watchers:
                wire.pump(0)
            return sum(status == UNIMPLEMENTED for wire in watchers for status in wire.ended.values())

        assert eventually(lambda: refused() >= 1, 30)
        assert good(crowded.stub)
        assert crowded.stub.ListModels(service_pb2.ListModelsRequest(), timeout=30).models


LARGEST = 4 * MEBIBYTE
PLACES = 8
OK, CANCELLED, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, RESOURCE_EXHAUSTED, UNIMPLEMENTED = 0, 1, 3, 4, 5, 8, 12
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


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


LONGEST = " ".join(["cat"] * 30)


@pytest.fixture(scope="module")
def impatient(repository: Path, frontends: int) -> Iterator[Capped]:
    with capped(repository, frontends=frontends, limits={"answer_seconds": 1}) as running:
        yield running


def ask(wire: Wire, path: str, request: bytes) -> int:
    """Send a request; gives its stream."""
    stream = wire.begin(path)
    assert wire.put_all(stream, prefix(len(request)) + request, end=True)
    return stream


def is_refused(server: Capped, request: service_pb2.AttendRequest) -> bool:
    """True where an honest call is is_refused for what others hold."""
    try:
        server.stub.Attend(request, timeout=60)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error  # type: ignore[attr-defined]
        return True
    return False


ENDLESS = generate("endless", text("the cat"))


@pytest.mark.parametrize(
    ("path", "request_"),
    [
        (f"{SERVICE}Attend", attend("tiny", *[text(LONGEST)] * 64)),
        (f"{SERVICE}Generate", ENDLESS),
        (f"{SERVICE}GetModel", service_pb2.GetModelRequest(model=values_pb2.Model(name="tiny"))),
        (HEALTH, service_pb2.ListModelsRequest()),
        (REFLECTION, service_pb2.GetModelRequest(model=values_pb2.Model(name="x"))),
    ],
    ids=["attend", "generate", "get-model", "health", "reflection"],
)
def test_who_does_not_read_is_hung_up_on_and_others_are_not(impatient: Capped, path: str, request_: object) -> None:
    wire, reader = Wire(impatient.address, windows=0), Wire(impatient.address)
    ask(wire, path, request_.SerializeToString())  # type: ignore[attr-defined]

    def gone() -> bool:
        wire.pump(0.05)
        reader.pump(0)
        return wire.gone

    assert eventually(gone, 30)
    stream = ask(reader, f"{SERVICE}Predict", predict("tiny", text("cat")).SerializeToString())
    assert reader.wait(stream) == 0 and not reader.gone
    for each in (wire, reader):
        each.close()


def test_what_waits_for_its_reader_is_counted_until_the_reader_is_gone(repository: Path, frontends: int) -> None:
    large = attend("tiny", *[text(LONGEST)] * 64)  # about a megabyte is the answer
    limits = {"max_held_bytes": 2_000_000, "answer_seconds": 3}
    with capped(repository, frontends=frontends, limits=limits) as server:
        assert not is_refused(server, large)
        before = server.resident()
        server.forget_peak()
        with health_of(server.address) as health:
            wires = [Wire(server.address, windows=0) for _ in range(40)]
            for wire in wires:
                ask(wire, f"{SERVICE}Attend", large.SerializeToString())
            assert eventually(lambda: is_refused(server, large), 30)
            assert eventually(lambda: not is_refused(server, large), 30)
        assert server.peak() - before < 40_000_000  # not 40 answers, each of which is there twice
        assert health.seconds and not health.failures
        for wire in wires:
            wire.close()


@pytest.mark.parametrize("options", [{"top_k": 1}, {"encoding": attention_pb2.ENCODING_UINT8}], ids=["top_k", "uint8"])
def test_small_answers_of_large_maps_stay_within_the_budget(
    repository: Path, frontends: int, options: dict[str, int]
) -> None:
    request = attend("tiny", *[text(LONGEST)] * 256, **options)
    with capped(repository, frontends=frontends, limits={"max_held_bytes": 8_000_000}) as server:
        assert server.stub.Attend(request, timeout=60).results
        before = server.resident()
        server.forget_peak()
        calls = [server.stub.Attend.future(request, timeout=60) for _ in range(20)]
        codes = {each.code() for each in calls}
        assert codes <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED}
        assert grpc.StatusCode.OK in codes
        assert server.peak() - before < CAP // 16
        assert not is_refused(server, request)


def test_a_reader_that_is_slow_but_reads_gets_everything(repository: Path, frontends: int) -> None:
    request = attend("tiny", *[text(LONGEST)] * 64)
    with capped(repository, frontends=frontends, limits={"answer_seconds": 20}) as server:
        whole = len(server.stub.Attend(request).SerializeToString())
        wire = Wire(server.address, windows=65_535)
        stream = ask(wire, f"{SERVICE}Attend", request.SerializeToString())
        while stream not in wire.ended:
            before = wire.received[stream]
            wire.pump(0.05)
            wire.allow(stream, wire.received[stream] - before)
            time.sleep(0.01)
            assert not wire.gone
        assert wire.ended[stream] == 0
        assert abs(wire.received[stream] - 5 - whole) < 4096  # times differ in their digits
        wire.close()
