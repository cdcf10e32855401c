"""Calls take turns over the servers that a target names, and only where it names several."""

import asyncio
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import limelight
from limelight.targets import has_several_addresses
from limelight.transport import service_config
from limelight_service.frontend.transport import health
from tests.kit import bundles
from tests.kit.forwarder import Forwarder
from tests.kit.serving import eventually, free_port, serving

CALLS = 20


@pytest.fixture
def two(server: Forwarder) -> Iterator[tuple[Forwarder, Forwarder]]:
    with Forwarder(server.upstream) as one, Forwarder(server.upstream) as other:
        yield one, other


def ask(kind: Any, target: str, **options: Any) -> None:
    """Make calls by one client, synchronous or not."""

    async def calls() -> None:
        async with limelight.AsyncClient(target, timeout=20, **options) as client:
            for _ in range(CALLS):
                await client.predict("tiny", {"text": "a"})

    if kind is limelight.AsyncClient:
        asyncio.run(calls())
        return
    with limelight.Client(target, timeout=20, **options) as client:
        for _ in range(CALLS):
            client.predict("tiny", {"text": "a"})


def counts(*servers: Forwarder) -> list[int]:
    return [len(each.requests) for each in servers]


@pytest.mark.parametrize("kind", [limelight.Client, limelight.AsyncClient])
def test_calls_take_turns_over_a_list_of_addresses_and_none_goes_to_one_that_is_gone(
    two: tuple[Forwarder, Forwarder], kind: Any
) -> None:
    target = "ipv4:" + ",".join(each.target for each in two)
    ask(kind, target)
    assert sum(counts(*two)) == CALLS
    assert min(counts(*two)) >= CALLS // 3
    two[1].stop()
    before = counts(two[0])[0]
    ask(kind, target)
    assert counts(two[0])[0] - before == CALLS


@pytest.mark.parametrize("kind", [limelight.Client, limelight.AsyncClient])
def test_options_of_the_caller_override_those_of_the_client(two: tuple[Forwarder, Forwarder], kind: Any) -> None:
    config = ("grpc.service_config", '{"loadBalancingConfig": [{"pick_first": {}}]}')
    ask(kind, "ipv4:" + ",".join(each.target for each in two), options=[config])
    assert sorted(counts(*two)) == [0, CALLS]


@pytest.mark.parametrize("kind", [limelight.Client, limelight.AsyncClient])
def test_no_call_goes_to_a_server_that_says_it_is_not_ready(server: Forwarder, tmp_path: Path, kind: Any) -> None:
    with serving(tmp_path) as empty:
        ask(kind, f"ipv4:{empty.server.address},{server.target}", attempts=1)
        with limelight.Client(f"ipv4:{empty.server.address},{empty.server.address}", timeout=20) as nobody:
            assert not nobody.ready()
    assert len(server.requests) == CALLS


def test_no_call_is_lost_without_retries_while_servers_restart_in_turn(tmp_path: Path) -> None:
    bundles.tiny(tmp_path)
    ended = threading.Event()
    ports = [free_port(), free_port()]

    def call(target: str) -> None:
        with limelight.Client(target, timeout=20, attempts=1) as client:
            while not ended.is_set():
                client.predict("tiny", {"text": "a"})

    with ExitStack() as last, ThreadPoolExecutor(1) as threads:
        stacks = [ExitStack() for _ in ports]
        running = []
        for each, port in zip(stacks, ports, strict=True):
            last.callback(each.close)
            running.append(each.enter_context(serving(tmp_path, port=port, drain_seconds=1.0)))
        calls = threads.submit(call, "ipv4:" + ",".join(f"127.0.0.1:{port}" for port in ports))
        try:
            for each, old, port in zip(stacks, running, ports, strict=True):
                old.finish()
                each.close()
                each.enter_context(serving(tmp_path, port=port))
                with limelight.Client(f"127.0.0.1:{port}") as ready:
                    assert eventually(ready.ready)
                time.sleep(1.0)  # clients find it again
        finally:
            ended.set()
        calls.result(timeout=30)


def test_servers_that_too_many_watch_are_called_all_the_same(
    two: tuple[Forwarder, Forwarder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_MOST_WATCHING", 0)
    ask(limelight.Client, "ipv4:" + ",".join(each.target for each in two), attempts=1)
    assert sum(counts(*two)) == CALLS


def test_the_service_config_of_the_docs_is_the_clients() -> None:
    text = (Path(__file__).parents[2] / "docs/calling.md").read_text(encoding="utf-8")
    assert json.loads(text.split("```json\n")[1].split("```")[0]) == json.loads(service_config(4, balanced=True))


@pytest.mark.skipif(sys.platform != "linux", reason="needs a second address of this machine")
def test_calls_take_turns_over_the_addresses_of_a_name(server: Forwarder) -> None:
    up = server.upstream
    with (
        Forwarder(up) as one,
        Forwarder(up, one.port, "127.0.0.2") as other,
        name_server("127.0.0.1", "127.0.0.2") as resolver,
    ):
        target = f"dns://{resolver}/models.test:{one.port}"
        ask(limelight.Client, target, options=[("grpc.enable_http_proxy", 0)])
        assert min(counts(one, other)) >= CALLS // 3


@contextmanager
def name_server(*addresses: str) -> Iterator[str]:
    """Run a name server that gives every name these addresses (RFC 1035); gives its own address."""
    stop = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(0.05)

        def serve() -> None:
            while not stop.is_set():
                with suppress(TimeoutError):
                    query, caller = listening.recvfrom(512)
                    listening.sendto(reply(query, addresses), caller)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()


def reply(query: bytes, addresses: tuple[str, ...]) -> bytes:
    """Answer a query for addresses of IPv4; any other type has none."""
    end = query.index(b"\0", 12) + 5  # the question: a name, its type and its class
    asked = query[12:end]
    found = [socket.inet_aton(each) for each in addresses] if asked[-4:-2] == b"\0\1" else []
    records = b"".join(b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + each for each in found)
    return query[:2] + b"\x81\x80" + struct.pack(">4H", 1, len(found), 0, 0) + asked + records


ONE = "127.0.0.1:50051 models.example:50051 ipv4:127.0.0.1:50051 unix:///run/a,b"
SEVERAL = (
    "dns:models.example:50051 dns:///models.example:50051 DNS:///models.example:50051 "
    "ipv4:10.0.0.1:50051,10.0.0.2:50051 ipv6:[::1]:50051,[::2]:50051"
)


@pytest.mark.parametrize("target", [*ONE.split(), *SEVERAL.split()])
def test_a_target_says_whether_it_names_several_servers(target: str) -> None:
    assert has_several_addresses(target) is (target in SEVERAL.split())
