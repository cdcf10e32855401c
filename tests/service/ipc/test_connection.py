"""Packets arrive between two processes as they were sent, in their order and with their descriptors."""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight_service.ipc.connection import Connection, Descriptor, Packet

LARGE = 64 * 1024
SIZES = st.one_of(st.integers(0, 100), st.integers(LARGE - 2, LARGE + 2), st.integers(10**6, 2 * 10**6))


def run(test: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(test(), 120))  # type: ignore[arg-type]


def payload(number: int, size: int) -> bytes:
    return bytes([number % 251]) * size


def file_of(content: bytes) -> Descriptor:
    descriptor = os.memfd_create("test")
    os.write(descriptor, content)
    return Descriptor(descriptor)


def content_of(descriptor: int) -> bytes:
    """Read a file whose descriptor arrived, and close it."""
    try:
        return os.pread(descriptor, 100, 0)
    finally:
        os.close(descriptor)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Receiver:
    """The receiving end: packets, each with the content of its files, and how often the end was lost."""

    def __init__(self, end: socket.socket) -> None:
        self.packets: list[tuple[bytes, list[bytes]]] = []
        self.losses = 0
        self.changed = asyncio.Event()
        self.connection = Connection(end, self._receive, self._lose)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something holds, which is looked at after each packet and loss."""
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    def _receive(self, data: bytes, descriptors: tuple[int, ...]) -> None:
        self.packets.append((data, [content_of(each) for each in descriptors]))
        self.changed.set()

    def _lose(self) -> None:
        self.losses += 1
        self.changed.set()


@contextmanager
def ends(buffer: int = 0) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A pair of sockets. buffer: bytes that one takes before the other reads; 0 for the system's."""
    one, other = socket.socketpair()
    if buffer:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    with one, other:
        yield one, other


@settings(max_examples=30)
@given(st.lists(st.tuples(SIZES, st.integers(0, 3), st.booleans()), max_size=12), st.sampled_from([0, 4096]))
def test_packets_arrive_whole_and_in_order_each_with_its_own_descriptors(
    drawn: list[tuple[int, int, bool]], buffer: int
) -> None:
    """Of several turns of the loop, through a socket that takes a packet in parts."""
    wanted = [
        (payload(number, size), [b"%d %d" % (number, place) for place in range(files)])
        for number, (size, files, _) in enumerate(drawn)
    ]

    async def test() -> None:
        with ends(buffer) as (one, other):
            receiver, sender = Receiver(other), Connection(one, lambda *_: None, lambda: None)
            for (data, contents), (_, _, turn) in zip(wanted, drawn, strict=True):
                sender.send(Packet(data, tuple(map(file_of, contents))))
                if turn:
                    await asyncio.sleep(0)
            await receiver.until(lambda: len(receiver.packets) == len(wanted))
            assert receiver.packets == wanted
            sender.close()
            await receiver.until(lambda: receiver.losses == 1)
            receiver.connection.close()

    before = open_files()
    run(test)
    assert open_files() <= before


def test_thousands_of_packets_of_one_turn_arrive() -> None:
    async def test() -> None:
        with ends() as (one, other):
            receiver, sender = Receiver(other), Connection(one, lambda *_: None, lambda: None)
            for number in range(20_000):
                sender.send(Packet(b"%d" % number))
            await receiver.until(lambda: len(receiver.packets) == 20_000)
            assert [int(data) for data, _ in receiver.packets] == list(range(20_000))
            sender.close()
            receiver.connection.close()

    run(test)


def test_packets_sent_before_a_close_arrive_and_the_closing_end_is_not_told() -> None:
    async def test() -> None:
        with ends() as (one, other):
            losses: list[int] = []
            receiver, sender = Receiver(other), Connection(one, lambda *_: None, lambda: losses.append(1))
            sender.send(Packet(b"last"))
            sender.close()
            await receiver.until(lambda: receiver.losses == 1)
            assert receiver.packets == [(b"last", [])] and not losses

    run(test)


def test_an_end_that_is_gone_is_told_once_and_what_is_sent_to_it_is_let_go() -> None:
    async def test() -> None:
        with ends(4096) as (one, other):
            losses: list[int] = []
            connection = Connection(one, lambda *_: None, lambda: losses.append(1))
            connection.send(Packet(bytes(10**6), (file_of(b"x"),)))
            await asyncio.sleep(0)
            other.close()
            while not losses:
                await asyncio.sleep(0.01)
            before = open_files()
            connection.send(Packet(b"more", (file_of(b"x"),)))
            await asyncio.sleep(0.05)
            assert losses == [1] and connection.is_closed and open_files() == before

    run(test)


@pytest.mark.parametrize(
    "garbage",
    [b"\x00\x00\x00\x00\x01", b"\x00\x00\x00\x00\xff", b"\x05\x00\x00\x00\x02hello"],
    ids=["a descriptor that did not come", "too many descriptors", "fewer descriptors than stated"],
)
def test_a_packet_that_breaks_the_format_ends_the_connection(garbage: bytes) -> None:
    async def test() -> None:
        with ends() as (one, other):
            receiver = Receiver(other)
            one.send(b"\x02\x00\x00\x00\x00ok" + garbage + b"\x02\x00\x00\x00\x00no")
            await receiver.until(lambda: receiver.losses == 1)
            assert receiver.packets == [(b"ok", [])] and receiver.connection.is_closed
            assert one.recv(1) == b""

    run(test)


def test_a_packet_that_its_receiver_fails_on_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        def fail(data: bytes, descriptors: tuple[int, ...]) -> None:
            raise KeyError(data)

        with ends() as (one, other):
            lost = asyncio.Event()
            connection = Connection(other, fail, lost.set)
            one.send(b"\x02\x00\x00\x00\x00no")
            await lost.wait()
            assert connection.is_closed and one.recv(1) == b""

    run(test)
    assert any("the connection is closed" in each.message for each in caplog.records)


@settings(max_examples=50)
@given(st.binary(max_size=200))
def test_whatever_bytes_come_nothing_but_packets_and_a_loss_come_of_them(data: bytes) -> None:
    async def test() -> None:
        with ends() as (one, other):
            receiver = Receiver(other)
            one.send(data)
            one.close()
            await receiver.until(lambda: receiver.losses == 1)
            assert sum(len(each) + 5 for each, _ in receiver.packets) <= len(data)

    run(test)
