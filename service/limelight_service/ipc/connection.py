"""A stream of packets between two processes of one server, over a pair of Unix sockets.

A packet is bytes, and file descriptors of shared memory or sockets that travel with them. All that is sent in one turn
of the event loop leaves in one system call. Nothing here executes what the other end says, and a connection ends with
the first packet that its receiver cannot handle.
"""

import array
import asyncio
import logging
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

logger = logging.getLogger(__name__)

_HEAD = struct.Struct("<IB")  # bytes of the payload, number of descriptors
_READ = 256 * 1024
_MOST_DESCRIPTORS = 16  # of one packet
_DESCRIPTORS_A_READ = 253  # SCM_MAX_FD of Linux
_LARGE = 64 * 1024  # from here on a payload is sent as it is, and not copied together with others
LARGEST = 2**32 - 1


class Descriptor:
    """A file descriptor that is closed with the last reference to this."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.number)


@dataclass(frozen=True, slots=True)
class Packet:
    """Bytes to send, and descriptors that travel with them: the other process gets copies."""

    data: bytes
    descriptors: tuple[Descriptor, ...] = ()


Receive = Callable[[bytes, tuple[int, ...]], None]


class Connection:
    """One end of a pair of sockets. For one event loop.

    receive: called with each packet; the descriptors are the receiver's to close. It raises for a packet that is none
    of its messages. lost: called once, when the other end is gone, or sends what is not understood.
    """

    def __init__(self, end: socket.socket, receive: Receive, lost: Callable[[], None]) -> None:
        end.setblocking(False)
        self._socket = end
        self._receive = receive
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._arrived = bytearray()
        self._descriptors: deque[int] = deque()
        self._waiting: deque[tuple[memoryview, tuple[Descriptor, ...]]] = deque()
        self._is_due = self._is_blocked = self._is_closed = False
        self._loop.add_reader(end, self._read)

    @property
    def is_closed(self) -> bool:
        """True once nothing can be sent any more."""
        return self._is_closed

    def send(self, packet: Packet) -> None:
        """Send a packet with all others of this turn of the loop; without effect where the other end is gone."""
        if self._is_closed:
            return
        head = _HEAD.pack(len(packet.data), len(packet.descriptors))
        if len(packet.data) < _LARGE:
            self._waiting.append((memoryview(head + packet.data), packet.descriptors))
        else:
            self._waiting.append((memoryview(head), packet.descriptors))
            self._waiting.append((memoryview(packet.data), ()))
        if not self._is_due and not self._is_blocked:
            self._is_due = True
            self._loop.call_soon(self._write)

    def flush(self) -> None:
        """Send what waits now, as far as the other end takes it."""
        if not self._is_blocked and not self._is_closed:
            self._write()

    def close(self) -> None:
        """Send what waits as far as the other end takes it, and close this end; `lost` is not called."""
        self.flush()
        self._end()

    def _end(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._socket)
        if self._is_blocked:
            self._loop.remove_writer(self._socket)
        self._waiting.clear()
        _close(tuple(self._descriptors))
        self._descriptors.clear()
        self._socket.close()

    def _fail(self) -> None:
        if not self._is_closed:
            self._end()
            self._lost()

    def _write(self) -> None:
        self._is_due = False
        while self._waiting and not self._is_closed:
            parts, descriptors = self._next()
            numbers = array.array("i", [each.number for each in descriptors])
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if descriptors else []
            try:
                sent = self._socket.sendmsg(parts, ancillary)
            except BlockingIOError:
                self._block()
                return
            except OSError:
                self._fail()
                return
            self._sent(sent, len(parts))
        if self._is_blocked and not self._is_closed:
            self._is_blocked = False
            self._loop.remove_writer(self._socket)

    def _next(self) -> tuple[list[memoryview], tuple[Descriptor, ...]]:
        """Give what is sent next: descriptors go with the first byte of their own packet."""
        first, descriptors = self._waiting[0]
        parts = [first]
        for data, others in islice(self._waiting, 1, 64) if not descriptors else ():
            if others:
                break
            parts.append(data)
        return parts, descriptors

    def _sent(self, count: int, parts: int) -> None:
        for _ in range(parts):
            data, _ = self._waiting.popleft()
            if count < len(data):
                self._waiting.appendleft((data[count:], ()))
                return
            count -= len(data)

    def _block(self) -> None:
        if not self._is_blocked:
            self._is_blocked = True
            self._loop.add_writer(self._socket, self._write)

    def _read(self) -> None:
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(_READ, socket.CMSG_SPACE(4 * _DESCRIPTORS_A_READ))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._fail()
            return
        self._descriptors.extend(_received(ancillary))
        if not data or flags & socket.MSG_CTRUNC:
            self._fail()
            return
        self._arrived += data
        self._take_apart()

    def _take_apart(self) -> None:
        place, arrived = 0, self._arrived
        while len(arrived) - place >= _HEAD.size:
            size, count = _HEAD.unpack_from(arrived, place)
            end = place + _HEAD.size + size
            if len(arrived) < end:
                break
            if count > _MOST_DESCRIPTORS or count > len(self._descriptors):
                self._fail()
                return
            descriptors = tuple(self._descriptors.popleft() for _ in range(count))
            try:
                self._receive(bytes(memoryview(arrived)[place + _HEAD.size : end]), descriptors)
            except Exception:
                logger.exception("another process sent something that is not understood; the connection is closed")
                self._fail()
            if self._is_closed:
                return
            place = end
        del arrived[:place]


def _received(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def _close(descriptors: Sequence[int]) -> None:
    for each in descriptors:
        with suppress(OSError):
            os.close(each)
