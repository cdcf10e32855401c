"""Bytes that the kernel still has to send, of real connections."""

import asyncio
import socket

from limelight_service.platform.unsent import all_sent, unsent
from tests.kit.serving import eventually


def test_bytes_count_until_the_other_end_has_them() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        with server:
            server.setblocking(False)
            before = unsent()
            sent = 0
            while True:
                try:
                    sent += server.send(b"x" * 65536)
                except BlockingIOError:
                    break
            assert before < unsent() - 1000
            asyncio.run(all_sent(0.1))
            assert unsent() > before  # nobody reads: it was waited in vain
            left = sent
            while left:
                left -= len(client.recv(2**20))
            assert eventually(lambda: unsent() <= before, 30)
