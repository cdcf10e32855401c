"""Large messages have turns; a connection is found by what gRPC calls its peer, and no other is touched."""

import asyncio
import socket
import time
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from service.rpc.delivery import Delivery, hang_up


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


def test_large_messages_have_turns_and_small_ones_need_none() -> None:
    begun: list[str] = []

    async def send(delivery: Delivery, name: str, message: bytes, takes: float) -> None:
        await delivery.turn(message)
        begun.append(name)
        time.sleep(takes)  # gRPC copies it, on the event loop

    async def run() -> float:
        delivery, large = Delivery(60.0), bytes(8 * 2**20)
        first = asyncio.create_task(send(delivery, "first", large, 0.1))
        given_up = asyncio.create_task(send(delivery, "given up", large, 0.1))
        second = asyncio.create_task(send(delivery, "second", large, 0.0))
        await asyncio.sleep(0)
        given_up.cancel()
        await send(delivery, "small", b"small", 0.0)
        await first
        copied = time.monotonic()
        await second
        return time.monotonic() - copied

    assert asyncio.run(run()) > 0.05, "what has arrived meanwhile gets as much time"
    assert begun == ["first", "small", "second"]
