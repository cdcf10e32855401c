"""Large messages have turns; a connection is found by what gRPC calls its peer, and no other is touched."""

import asyncio
import gc
import socket
import time
import weakref
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

import pytest

from limelight_service.frontend.transport.response_sender import ResponseSender, hang_up


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_one_connection_to_a_peer_is_closed(family: socket.AddressFamily, host: str) -> None:
    with ExitStack() as stack:
        try:
            listener = stack.enter_context(socket.create_server((host, 0), family=family))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        clients = [stack.enter_context(socket.create_connection(listener.getsockname()[:2])) for _ in range(3)]
        servers = {}
        for _ in clients:
            connection, peer = listener.accept()
            servers[peer[1]] = stack.enter_context(connection)
        port = clients[1].getsockname()[1]
        hang_up(f"ipv4:{host}:{port}" if family == socket.AF_INET else f"ipv6:{quote(f'[{host}]')}:{port}")
        assert clients[1].recv(1) == b""
        for other in (clients[0], clients[2]):
            servers[other.getsockname()[1]].sendall(b"x")
            assert other.recv(1) == b"x"


def answered(sender: ResponseSender, name: str, takes: float, begun: list[str]) -> Callable[[bytes], Awaitable[None]]:
    """An answer as a whole: gRPC copies it as soon as it is given back."""

    async def send(message: bytes) -> None:
        await sender.turn(message)
        begun.append(name)
        time.sleep(takes)

    return send


def streamed(sender: ResponseSender, name: str, takes: float, begun: list[str]) -> Callable[[bytes], Awaitable[None]]:
    """A message of a stream."""

    class Context:
        async def write(self, _: bytes) -> None:
            begun.append(name)
            time.sleep(takes)

    return lambda message: sender.write(Context(), message)


@pytest.mark.parametrize("means", [answered, streamed])
def test_large_messages_have_turns_and_small_ones_need_none(means: Callable[..., Any]) -> None:
    begun: list[str] = []

    async def run() -> float:
        sender, large = ResponseSender(60.0), bytes(8 * 2**20)
        first = asyncio.ensure_future(means(sender, "first", 0.1, begun)(large))
        given_up = asyncio.ensure_future(means(sender, "given up", 0.1, begun)(large))
        second = asyncio.ensure_future(means(sender, "second", 0.0, begun)(large))
        await asyncio.sleep(0)
        given_up.cancel()
        await means(sender, "small", 0.0, begun)(b"small")
        await first
        copied = time.monotonic()
        await second
        return time.monotonic() - copied

    assert asyncio.run(run()) > 0.05, "what has arrived meanwhile gets as much time"
    assert begun == ["first", "small", "second"]


def test_a_write_that_fails_leaves_nothing_to_be_collected() -> None:
    class Context:
        async def write(self, _: bytes) -> None:
            await asyncio.sleep(0)
            raise ConnectionError("its caller has gone")

    async def run() -> weakref.ref[Context]:
        context = Context()
        with pytest.raises(ConnectionError):
            await ResponseSender(60.0).write(context, b"a chunk")
        return weakref.ref(context)

    gc.disable()
    try:
        assert asyncio.run(run())() is None
    finally:
        gc.enable()
