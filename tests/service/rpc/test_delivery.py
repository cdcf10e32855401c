"""A connection is found by what gRPC calls its peer, and no other is touched."""

import socket
from contextlib import ExitStack
from urllib.parse import quote

import pytest

from service.rpc.delivery import hang_up


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
