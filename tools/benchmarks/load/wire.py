"""Unary gRPC calls over HTTP/2 by hand, for load: ten times cheaper a call than a client that parses what it gets.

Nothing is decoded but what a load needs: which call ended, with which status, and whether RetryInfo came with it. The
settings sent ask for headers without a table and metadata without base64, so that trailers can be searched as bytes;
gRPC's C core, which every server measured here is made of, grants both. Windows are as large as HTTP/2 has them.
RFC 9113, RFC 7541, and gRPC's PROTOCOL-HTTP2.
"""

import itertools
import re
import socket
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

MAX_MESSAGE = 60_000
UNKNOWN, INTERNAL, UNAVAILABLE = 2, 13, 14
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_REFUSED, _CANCEL = 7, 8
_MOST_STREAMS, _STREAM_WINDOW = 3, 4
_FRAME = 16_384
_WINDOW = 2**31 - 1
_BUFFER = 2**20
# Header table size, no push, initial window, largest frame, gRPC's true binary metadata.
_OUR_SETTINGS = {1: 0, 2: 0, 4: _WINDOW, 5: 2**20, 0xFE03: 1}
_STATUS = re.compile(rb"\x0bgrpc-status([\x01\x02])(\d{1,2})")  # name and value with their lengths
_RETRY = b"google.rpc.RetryInfo"


@dataclass(frozen=True)
class Ended:
    """A call that ended: the number that `send` gave, its gRPC status, and whether RetryInfo came with it.

    trailers: as they came, HPACK and all; nothing where the call was reset.
    """

    call: int
    status: int
    retry: bool
    trailers: bytes = field(default=b"", compare=False, repr=False)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Write an HTTP/2 frame."""
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def message(serialised: bytes) -> bytes:
    """Put gRPC's five bytes before a message. Raises: ValueError where it is larger than a server takes unasked."""
    if len(serialised) + 5 > MAX_MESSAGE:
        raise ValueError(f"a request of {len(serialised)} bytes is over the {MAX_MESSAGE} that this client sends")
    return struct.pack(">BI", 0, len(serialised)) + serialised


def trailers(payload: bytes) -> tuple[int, bool]:
    """Find status and RetryInfo in a block of headers; no status at all is UNKNOWN, as clients have it."""
    found = _STATUS.search(payload)
    return (int(found[2][: found[1][0]]) if found else UNKNOWN), _RETRY in payload


class Connection:
    """Calls of one method over one connection, or of several where `send` is told which. `send` and `receive` never
    block.
    """

    def __init__(self, target: str, method: str, *, timeout: float | None = None) -> None:
        host, port = target.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.received = 0
        self.held = 0  # calls that the server's window kept back, or its limit on calls at the same time
        self._headers = request_headers(target, method, timeout)
        self._next = 1  # stream
        self._calls = itertools.count()
        self._window = 65_535
        self._first_window = 65_535  # of each stream
        self._rest: dict[int, tuple[int, bytes]] = {}  # by stream: its window, and what did not fit into it
        self._out = bytearray(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self._out += frame(_SETTINGS, 0, 0, b"".join(struct.pack(">HI", *each) for each in _OUR_SETTINGS.items()))
        self._out += frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", _WINDOW - 65_535))
        self._unacknowledged = 0
        self._open: set[int] = set()
        self._streams: dict[int, int] = {}  # of those that were sent
        self._sent: dict[int, tuple[int, bytes, bytes]] = {}  # by stream
        self._most = _WINDOW
        self._waiting: deque[tuple[int, bytes, bytes]] = deque()
        self._kept: dict[int, bytearray] = {}
        self._sink: bytearray | None = None
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._skip = 0
        self.flush()

    @property
    def writes(self) -> bool:
        """Whether there is something to send that the socket did not take."""
        return bool(self._out)

    def send(self, framed: bytes, *, headers: bytes = b"", keep: bool = False) -> int:
        """Begin a call and give its number; `framed` comes from `message`.

        headers: from `request_headers`, where they are not the connection's own. keep: its answer is wanted, see
        `taken`.
        """
        call = next(self._calls)
        self._open.add(call)
        if keep:
            self._kept[call] = bytearray()
        self._waiting.append((call, framed, headers))
        self._put_waiting()
        self.held += call not in self._streams
        self.flush()
        return call

    def taken(self, call: int) -> bytes:
        """Take the answer of a call that was sent with `keep`, gRPC's framing included."""
        return bytes(self._kept.pop(call, b""))

    def cancel(self, call: int) -> None:
        """Give a call up, as a client does whose deadline has passed."""
        if call in self._open:
            self._open.remove(call)
            self._kept.pop(call, None)
            if (stream := self._streams.pop(call, None)) is not None:
                del self._sent[stream]
                self._rest.pop(stream, None)
                self._out += frame(_RST_STREAM, 0, stream, struct.pack(">I", _CANCEL))
                self._put_waiting()
                self.flush()

    def flush(self) -> None:
        """Write as much as the socket takes."""
        while self._out:
            try:
                taken = self.socket.send(self._out)
            except BlockingIOError:
                return
            del self._out[:taken]

    def receive(self) -> Iterator[Ended]:
        """Read what is there, and yield the calls that ended. Raises: ConnectionError where the server hung up."""
        for ended in self._frames():
            if (sent := self._sent.pop(ended.call, None)) is not None:  # a server may reset a stream that it has ended
                self._open.remove(sent[0])
                self._rest.pop(ended.call, None)
                del self._streams[sent[0]]
                yield replace(ended, call=sent[0])
        self._put_waiting()
        self.flush()

    def _frames(self) -> Iterator[Ended]:
        try:
            count = self.socket.recv_into(self._view[self._filled :])
        except BlockingIOError:
            return
        if not count:
            raise ConnectionError("the server closed the connection")
        end, at, buffer = self._filled + count, 0, self._buffer
        while True:
            if self._skip:
                step = min(self._skip, end - at)
                if self._sink is not None:
                    self._sink += buffer[at : at + step]
                at, self._skip = at + step, self._skip - step
            if end - at < 9 or self._skip:
                break
            size, kind, flags = int.from_bytes(buffer[at : at + 3]), buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9]) & _WINDOW
            if kind == _DATA:
                self._count(size)
                self._skip, at = size, at + 9
                self._sink = self._kept.get(self._sent[stream][0]) if stream in self._sent else None
                if flags & _END_STREAM:
                    yield Ended(stream, UNKNOWN, False)
                continue
            if end - at < 9 + size:
                break
            payload = bytes(buffer[at + 9 : at + 9 + size])
            at += 9 + size
            if kind == _HEADERS and flags & _END_STREAM:
                if not flags & _END_HEADERS:
                    raise ConnectionError("trailers came in several frames")
                yield Ended(stream, *trailers(payload), payload)
            elif kind == _RST_STREAM and int.from_bytes(payload) == _REFUSED and stream in self._sent:
                # As gRPC's clients have it whose retries are off: nothing is sent again, and so every refusal counts.
                yield Ended(stream, UNAVAILABLE, False)
            elif kind == _RST_STREAM:
                yield Ended(stream, INTERNAL, False)
            else:
                self._control(kind, flags, stream, payload)
        self._view[: end - at] = self._view[at:end]
        self._filled = end - at

    def close(self) -> None:
        """Hang up: the server cancels what is under way."""
        self.socket.close()

    def _put_waiting(self) -> None:
        """Start waiting calls, as far as the windows of the server allow."""
        while self._waiting and self._window > 0 and len(self._sent) < self._most:
            call, framed, headers = self._waiting.popleft()
            if call in self._open:
                self._put(call, framed, headers)

    def _put(self, call: int, framed: bytes, headers: bytes) -> None:
        stream = self._next
        self._next += 2
        self._streams[call] = stream
        self._sent[stream] = call, framed, headers
        flags = _END_HEADERS if framed else _END_HEADERS | _END_STREAM
        self._out += frame(_HEADERS, flags, stream, headers or self._headers)
        if framed:
            self._rest[stream] = self._first_window, framed
            self._put_rest(stream)

    def _put_rest(self, stream: int) -> None:
        """Queue as much of a message as the windows of its stream and of the connection allow."""
        window, data = self._rest.pop(stream)
        size = max(0, min(window, self._window, len(data)))
        self._window -= size
        for start in range(0, size, _FRAME):
            end = min(size, start + _FRAME)
            self._out += frame(_DATA, _END_STREAM if end == len(data) else 0, stream, data[start:end])
        if size < len(data):
            self._rest[stream] = window - size, data[size:]

    def _count(self, size: int) -> None:
        self.received += size
        self._unacknowledged += size
        if self._unacknowledged > 2**29:
            self._out += frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", self._unacknowledged))
            self._unacknowledged = 0

    def _control(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == _MOST_STREAMS:
                    self._most = value
                elif name == _STREAM_WINDOW:
                    self._rest = {
                        each: (window + value - self._first_window, rest) for each, (window, rest) in self._rest.items()
                    }
                    self._first_window = value
            self._out += frame(_SETTINGS, _ACK, 0, b"")
        elif kind == _PING and not flags & _ACK:
            self._out += frame(_PING, _ACK, 0, payload)
        elif kind == _WINDOW_UPDATE and not stream:
            self._window += int.from_bytes(payload)
            for each in list(self._rest):
                self._put_rest(each)
        elif kind == _WINDOW_UPDATE and stream in self._rest:
            window, rest = self._rest[stream]
            self._rest[stream] = window + int.from_bytes(payload), rest
            self._put_rest(stream)
        elif kind == _GOAWAY:
            raise ConnectionError(f"the server went away: {payload[8:]!r}")


def request_headers(target: str, method: str, timeout: float | None) -> bytes:
    """Write a call's headers: from the static table, or as literals that no table keeps."""
    block = b"\x83\x86" + b"\x04" + _text(method) + b"\x01" + _text(target)
    block += b"\x00" + _text("te") + _text("trailers") + b"\x0f\x10" + _text("application/grpc")
    if timeout is not None:
        block += b"\x00" + _text("grpc-timeout") + _text(f"{round(timeout * 1000)}m")
    return block


def _text(value: str) -> bytes:
    if len(value) > 126:
        raise ValueError(f"a header of {len(value)} bytes is too long for this client")
    return bytes([len(value)]) + value.encode("ascii")
