"""HTTP/2 by hand, as an attacker writes it: what no gRPC client can be made to send.

RFC 9113, and gRPC's PROTOCOL-HTTP2. Nothing of an answer is decoded but its status.
"""

import contextlib
import select
import socket
import struct
import time
from collections import defaultdict

from benchmarks.load.wire import frame, trailers

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
SERVICE = "/limelight.v1.AttentionService/"
HEALTH = "/grpc.health.v1.Health/Check"
_LARGEST = 2**31 - 1
_FRAME = 16_384
_INITIAL_WINDOW, _MAX_FRAME = 4, 5


def prefix(length: int, *, compressed: bool = False) -> bytes:
    """What gRPC puts before a message of so many bytes."""
    return struct.pack(">BI", compressed, length)


def fields_of(path: str, **more: str) -> bytes:
    """The headers of a call, none of them in a table; more: further ones, with `_` for `-`."""
    block = b"\x83\x86" + b"\x04" + _text(path) + b"\x01" + _text("server")
    block += b"\x00" + _text("te") + _text("trailers") + b"\x0f\x10" + _text("application/grpc")
    for name, value in more.items():
        block += b"\x00" + _text(name.replace("_", "-")) + _text(value)
    return block


def _text(value: str) -> bytes:
    data = value.encode("ascii")
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, head = len(data) - 127, b"\x7f"
    while rest > 127:
        head, rest = head + bytes([rest & 127 | 128]), rest >> 7
    return head + bytes([rest]) + data


class Wire:
    """A connection.

    windows: what it lets the server send, of each stream and of all. Statuses of calls that ended are in `ended` (None
    where the server reset the stream), bytes that came in `received`.
    """

    def __init__(self, address: str, *, windows: int = _LARGEST) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ended: dict[int, int | None] = {}
        self.received: dict[int, int] = defaultdict(int)
        self.gone = False
        self._next = 1
        self._all = 65_535
        self._initial = 65_535
        self._open: dict[int, int] = {}
        self._buffer = b""
        settings = {1: 0, 2: 0, 4: windows, 0xFE03: 1}
        opening = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        opening += frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *each) for each in settings.items()))
        if windows > 65_535:
            opening += frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", windows - 65_535))
        self.write(opening)

    def write(self, data: bytes) -> None:
        """Send bytes as they are. Where the server hung up, `gone` says so from then on."""
        try:
            self.socket.sendall(data)
        except OSError:
            self.gone = True

    def begin(self, path: str, **more: str) -> int:
        """Begin a call; gives its stream."""
        stream, self._next = self._next, self._next + 2
        self._open[stream] = self._initial
        self.write(frame(HEADERS, END_HEADERS, stream, fields_of(path, **more)))
        return stream

    def put(self, stream: int, payload: bytes | memoryview, *, end: bool = False) -> int:
        """Send of a payload what the server's windows allow now; gives how many bytes that was."""
        allowed = max(0, min(self._all, self._open.get(stream, 0), len(payload)))
        self._all -= allowed
        self._open[stream] = self._open.get(stream, 0) - allowed
        parts = []
        for start in range(0, allowed, _FRAME):
            part = bytes(payload[start : min(start + _FRAME, allowed)])
            last = end and start + len(part) == len(payload)
            parts.append(frame(DATA, END_STREAM if last else 0, stream, part))
        self.write(b"".join(parts))
        return allowed

    def end(self, stream: int) -> None:
        """Say that a call's caller sends nothing more."""
        self.write(frame(DATA, END_STREAM, stream, b""))

    def put_all(self, stream: int, payload: bytes, *, end: bool = False, seconds: float = 60.0) -> bool:
        """Send a payload as the server makes room; False where it did not in time, or ended the call."""
        view, until = memoryview(payload), time.monotonic() + seconds
        while view:
            view = view[self.put(stream, view, end=end) :]
            if view:
                self.pump(0.05)
                if self.gone or stream in self.ended or time.monotonic() > until:
                    return False
        return True

    def allow(self, stream: int, count: int) -> None:
        """Let the server send so many bytes more, on a stream and in all."""
        if count:
            more = struct.pack(">I", count)
            self.write(frame(WINDOW_UPDATE, 0, stream, more) + frame(WINDOW_UPDATE, 0, 0, more))

    def pump(self, seconds: float) -> None:
        """Read what comes within so many seconds: at least what is there."""
        until = time.monotonic() + seconds
        while not self.gone:
            ready, _, _ = select.select([self.socket], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return
            try:
                data = self.socket.recv(2**20)
            except OSError:
                data = b""
            self.gone = not data
            self._buffer += data
            self._frames()
            if time.monotonic() > until:
                return

    def wait(self, stream: int, seconds: float = 60.0) -> int | None:
        """Read until a call ends; gives its status. Raises: TimeoutError where it does not."""
        until = time.monotonic() + seconds
        while stream not in self.ended:
            if self.gone or time.monotonic() > until:
                raise TimeoutError("the call did not end")
            self.pump(0.05)
        return self.ended[stream]

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self.socket.close()

    def _frames(self) -> None:
        at, buffer = 0, self._buffer
        while len(buffer) - at >= 9:
            size, kind, flags = int.from_bytes(buffer[at : at + 3]), buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9]) & _LARGEST
            if len(buffer) - at < 9 + size:
                break
            self._frame(kind, flags, stream, buffer[at + 9 : at + 9 + size])
            at += 9 + size
        self._buffer = buffer[at:]

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == DATA:
            self.received[stream] += len(payload)
        elif kind == HEADERS and flags & END_STREAM:
            self.ended.setdefault(stream, trailers(payload)[0])
        elif kind == RST_STREAM:
            self.ended.setdefault(stream, None)
        elif kind == SETTINGS and not flags & ACK:
            for place in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[place : place + 6])
                if name == _INITIAL_WINDOW:
                    for each in self._open:
                        self._open[each] += value - self._initial
                    self._initial = value
            self.write(frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self.write(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE and stream:
            self._open[stream] = self._open.get(stream, 0) + int.from_bytes(payload)
        elif kind == WINDOW_UPDATE:
            self._all += int.from_bytes(payload)
