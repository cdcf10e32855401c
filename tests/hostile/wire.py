"""HTTP/2 as an attacker speaks it: calls that stop anywhere, over h2, and raw frames that no library sends."""

import contextlib
import select
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Iterator

import hpack
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamReset, TrailersReceived
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
SERVICE = "/limelight.v1.AttentionService/"
HEALTH = "/grpc.health.v1.Health/Check"
_LARGEST = 2**31 - 1
_FIRST_WINDOW = 65_535


def prefix(length: int, *, compressed: bool = False) -> bytes:
    """The prefix that gRPC puts before a message of so many bytes."""
    return struct.pack(">BI", compressed, length)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A raw frame (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def fields_of(path: str) -> bytes:
    """The encoded headers of a call, none of them in a table, so that any connection may send them."""
    return hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*each) for each in _headers(path)])


def _headers(path: str, **more: str) -> list[tuple[str, str]]:
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "server", "te": "trailers"}
    fields |= {"content-type": "application/grpc"} | {name.replace("_", "-"): value for name, value in more.items()}
    return list(fields.items())


class Wire:
    """A connection.

    windows: bytes that the server may send, of each stream and of all. Statuses of calls that ended are in `ended`
    (None where the server reset the stream), the number of bytes of answers in `received`.
    """

    def __init__(self, address: str, *, windows: int = _LARGEST) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ended: dict[int, int | None] = {}
        self.received: dict[int, int] = defaultdict(int)
        self.gone = False
        self._rest = b""
        self._http = H2Connection(H2Configuration(client_side=True))
        settings = {SettingCodes.HEADER_TABLE_SIZE: 0, SettingCodes.ENABLE_PUSH: 0}
        settings |= {SettingCodes.INITIAL_WINDOW_SIZE: windows}
        self._http.local_settings = Settings(client=True, initial_values=settings)
        self._http.initiate_connection()
        if windows > _FIRST_WINDOW:
            self._http.increment_flow_control_window(windows - _FIRST_WINDOW)
        self._flush()

    def write(self, data: bytes) -> None:
        """Send bytes as they are. Where the server hung up, `gone` is true from then on."""
        try:
            self.socket.sendall(data)
        except OSError:
            self.gone = True

    def begin(self, path: str, **more: str) -> int:
        """Begin a call; gives its stream. more: further headers, with `_` for `-`."""
        stream = self._http.get_next_available_stream_id()
        self._http.send_headers(stream, _headers(path, **more))
        self._flush()
        return stream

    def put(self, stream: int, payload: bytes | memoryview, *, end: bool = False) -> int:
        """Send as much of a payload as the server's windows allow now; gives how many bytes that was."""
        sent = 0
        with contextlib.suppress(ProtocolError):  # the server has reset the stream
            allowed = max(0, min(self._http.local_flow_control_window(stream), len(payload)))
            while sent < allowed:
                part = bytes(payload[sent : min(sent + self._http.max_outbound_frame_size, allowed)])
                self._http.send_data(stream, part, end_stream=end and sent + len(part) == len(payload))
                sent += len(part)
        self._flush()
        return sent

    def end(self, stream: int) -> None:
        """Say that the caller of a call sends nothing more."""
        with contextlib.suppress(ProtocolError):  # the server has reset the stream
            self._http.end_stream(stream)
        self._flush()

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
            self._http.increment_flow_control_window(count)
            with contextlib.suppress(ProtocolError):  # the call has ended
                self._http.increment_flow_control_window(count, stream)
            self._flush()

    def pump(self, seconds: float) -> None:
        """Read for so many seconds: at least whatever has arrived."""
        for data in self._arriving(seconds):
            for event in self._http.receive_data(data):
                self.note(event)
            self._flush()

    def drain(self) -> None:
        """Read whatever has arrived, and acknowledge settings and pings: h2 does not know the streams of raw frames."""
        for data in self._arriving(0):
            self._rest += data
            while len(self._rest) >= 9 + (size := int.from_bytes(self._rest[:3])):
                (kind, flags), payload = self._rest[3:5], self._rest[9 : 9 + size]
                if kind in (SETTINGS, PING) and not flags & ACK:
                    self.write(frame(kind, ACK, 0, payload if kind == PING else b""))
                self._rest = self._rest[9 + size :]

    def wait(self, stream: int, seconds: float = 60.0) -> int | None:
        """Read until a call ends; gives its status. Raises: TimeoutError where it does not."""
        until = time.monotonic() + seconds
        while stream not in self.ended:
            if self.gone or time.monotonic() > until:
                raise TimeoutError("the call did not end")
            self.pump(0.05)
        return self.ended[stream]

    def take(self, event: DataReceived) -> None:
        """Let the server send as many bytes more as it has sent."""
        self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def reset(self, stream: int, code: int) -> None:
        """End a call at once, for a reason of HTTP/2."""
        with contextlib.suppress(ProtocolError):  # the server has ended it
            self._http.reset_stream(stream, code)
        self._flush()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self.socket.close()

    def _arriving(self, seconds: float) -> Iterator[bytes]:
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
            yield data
            if time.monotonic() > until:
                return

    def _flush(self) -> None:
        self.write(self._http.data_to_send())

    def note(self, event: Event) -> None:
        """Take notice of an event."""
        if isinstance(event, DataReceived):
            self.received[event.stream_id] += event.flow_controlled_length
        elif isinstance(event, StreamReset):
            self.ended.setdefault(event.stream_id, None)
        elif isinstance(event, ResponseReceived | TrailersReceived) and event.stream_ended:
            self.ended.setdefault(event.stream_id, int(dict(event.headers)[b"grpc-status"]))
