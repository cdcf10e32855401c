"""Connections without end, and frames that no client sends: those who are there go on, and memory stays."""

import resource
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from limelight.v1 import service_pb2
from limelight_service.settings import Settings
from tests.hostile.capped import Capped, capped, good, health_of
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
from tests.kit.serving import eventually

MEBIBYTE = 2**20


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    return folder


@pytest.fixture(scope="module")
def server(repository: Path, frontends: int) -> Iterator[Capped]:
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
def test_connections_past_the_limit_are_closed_and_those_that_are_there_go_on(server: Capped, speaks: bool) -> None:
    before = count(server.listening, "fd")
    host, port = server.address.split(":")
    with ExitStack() as stack, health_of(server.address) as health:
        opened = []
        for _ in range(120):
            if speaks:
                opened.append(Wire(server.address).socket)
            else:
                opened.append(socket.create_connection((host, int(port)), timeout=30))
            stack.callback(opened[-1].close)
        assert eventually(lambda: sum(map(closed, opened)) >= 70)
        assert count(server.listening, "fd") <= before + 50
        assert server.scrape()
        answered = len(health.seconds)
        assert eventually(lambda: len(health.seconds) > answered + 10)
        assert not health.failures
        if speaks:  # they are closed for being idle, and others find room
            assert eventually(lambda: sum(map(closed, opened)) == 120, 30)
    assert eventually(lambda: good(server.stub), 30)


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


def test_half_open_connections_to_the_metrics_keep_nobody_from_them(server: Capped, many_files: None) -> None:
    before = count(server.process.pid, "fd")
    threads = count(server.process.pid, "task")
    with ExitStack() as stack:
        for number in range(1500):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", server.metrics_port))
            if number % 2:
                with suppress(OSError):
                    one.send(b"GET /metrics HTTP/1.1\r\nX: ")
        assert all(server.scrape() for _ in range(5))
        assert count(server.process.pid, "fd") <= before + 300
        assert count(server.process.pid, "task") <= threads + 300
    assert eventually(lambda: count(server.process.pid, "task") <= threads + 10)
    assert eventually(lambda: good(server.stub))


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
def test_a_flood_of_frames_ends_with_its_connection_and_leaves_nothing(server: Capped, flood: str, reads: bool) -> None:
    assert eventually(lambda: good(server.stub), 30)
    before = server.resident()
    server.forget_peak()
    until, turn, wire = time.monotonic() + 0.3, 0, Wire(server.address)
    with health_of(server.address) as health:
        while time.monotonic() < until:
            wire.socket.settimeout(0.3)  # a server that does not read holds this one up, and that is its right
            wire.write(FLOODS[flood](turn))
            if reads:
                wire.drain()
            turn += 1
            if wire.gone:
                wire.close()
                time.sleep(0.02)
                wire, turn = Wire(server.address), 0
        wire.close()
        assert eventually(lambda: good(server.stub), 30)
    assert health.seconds and not health.failures
    assert server.alive and server.peak() - before < 256 * MEBIBYTE


def test_who_watches_for_ever_is_one_of_a_bounded_number(repository: Path, frontends: int) -> None:
    with capped(repository, frontends=frontends) as server, ExitStack() as stack:
        watchers = [Wire(server.address) for _ in range(20)]
        for wire in watchers:
            stack.callback(wire.close)
            for _ in range(Settings().max_calls_per_connection):
                stream = wire.begin(HEALTH.replace("Check", "Watch"))
                wire.put(stream, prefix(0))
            wire.pump(0.1)

        def refused() -> int:
            for wire in watchers:
                wire.pump(0)
            return sum(status == 8 for wire in watchers for status in wire.ended.values())

        assert eventually(lambda: refused() >= 1, 30)
        assert good(server.stub)
        assert server.stub.ListModels(service_pb2.ListModelsRequest(), timeout=30).models
