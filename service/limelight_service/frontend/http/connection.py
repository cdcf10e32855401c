"""One connection: how many there are at the same time, how long one may be silent within a request's head, and how much
of what it sends is parsed at a time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from limelight_service.frontend.http.methods import EVENTS

CONNECTION = "limelight.connection"  # its key in a request's scope
_HEAD_SECONDS = 10.0  # in which a request's head arrives, and the rest of a body whose answer was sent before its end
_LOOK_SECONDS = 1.0  # after which a caller who sends no more is looked at, and again
# Bytes that are parsed at a time. Of a body in chunks fewer where they are small, each of which takes 5 µs, and more
# where they are not.
_SLICE, _SMALLEST, _LARGEST = 1024, 256, 2**16
_FRAMING = 128  # bytes of a slice that are none of its contents: those of 25 chunks
_EVENTS_TYPE = b"content-type", EVENTS.encode()
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_COMMENT = b":\n\n"  # an event that no reader of events is told of


class Connection(H11Protocol):
    """uvicorn's connection, closed where it is one too many, or where a head or a refused body takes too long.

    uvicorn itself bounds neither: it closes connections only that are silent after an answer. It parses all that one
    read brings in one go, which is 40,000 chunks of one byte, and ends a call whose caller has sent all that it wants
    to send and says so.

    received: bytes that have come so far since the head of the request. when_lost: called where the connection ends.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.received = 0
        self.when_lost: Callable[[], None] | None = None
        self._answer = self.app
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._parsing: asyncio.Handle | None = None
        self._unparsed = bytearray()
        self._slice = _SLICE
        self._has_ended = False  # the caller's side
        self._is_of_events = False  # the answer
        self.app = self._with_connection

    @property
    def _is_quiet(self) -> bool:
        """True while no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _is_chunked(self) -> bool:
        return any(name == b"transfer-encoding" for name, _ in self.headers)

    @property
    def _goes_on(self) -> bool:
        """True where more may come after this request, for all that caller and server have said.

        HTTP/1.0 has one request a connection, and no chunks: where one that has them ends, nobody knows.
        """
        is_last = CLOSE_HEADER in self.headers or (self.scope["http_version"] == "1.0" and not self._is_chunked)
        return self.cycle.more_body or (self.cycle.keep_alive and not is_last)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or close at once where there are too many."""
        self._held = _Transport(transport, self)
        super().connection_made(self._held)  # type: ignore[arg-type]  # does what one does
        if len(self.connections) > self.app_state["connections"]:
            self.abort()
        else:
            self._expect()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived, and wait for the rest of a head for so long."""
        if self.transport.is_closing():
            return  # the rest of a body that was refused
        self._unparsed += data
        if self._parsing is None:
            self._parse()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Go on with the answer to a caller who sends no more (RFC 9112, 9.6): true where there is one."""
        if self._is_quiet or self.cycle.more_body or self.scheme == "https":  # TLS has no half of a connection here
            return False
        self._has_ended = True
        self._looking = self.loop.call_later(_LOOK_SECONDS, self._look)
        return True

    def on_response_complete(self) -> None:
        """Go on to the next request; what is left of the body of this one is read and thrown away for a while."""
        super().on_response_complete()
        if self._unparsed and self._parsing is None:
            self._parse()
        if self._has_ended and self._is_quiet:
            self.transport.close()
        elif self.cycle.more_body and self._is_quiet:
            self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._unparsed.clear()
        self._expect_nothing()
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)
        if self.when_lost is not None:
            self.when_lost()

    def abort(self) -> None:
        """Close the connection at once, whatever waits to be sent."""
        self.transport.abort()

    def close_softly(self) -> bool:
        """Begin to throw away what still arrives; false where the caller sends nothing more, or the server stops.

        A connection that is closed on what is still being sent is reset, and its caller may never see the answer.
        """
        state = self.conn.their_state
        if state is not h11.ERROR and (state is h11.IDLE or self._has_ended or not self._goes_on):
            return False
        self._unparsed.clear()
        self._expect()
        return True

    def _parse(self) -> None:
        """Parse a slice of what has arrived, and the next once others have had their turn.

        What comes behind a request waits until that is answered.
        """
        self._parsing = None
        state = self.conn.their_state
        if self._unparsed and state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing():
            if state is h11.IDLE:
                self._slice = _SLICE
            elif not self._is_chunked:
                self._slice = len(self._unparsed)
            data = bytes(self._unparsed[: self._slice])
            del self._unparsed[: self._slice]
            self.received += len(data)
            before = len(self.cycle.body) if state is h11.SEND_BODY else 0
            super().data_received(data)
            if state is h11.SEND_BODY:
                in_crumbs = len(data) - (len(self.cycle.body) - before) > _FRAMING
                self._slice = max(_SMALLEST, self._slice // 2) if in_crumbs else min(_LARGEST, 2 * self._slice)
            if self._unparsed:
                self._parsing = self.loop.call_soon(self._parse)
            if self._is_quiet:
                self._expect()
            else:
                self._expect_nothing()
        self._held.hold(is_held=bool(self._unparsed))

    def _look(self) -> None:
        """Send next to nothing to a caller who sends no more: one who has left, and does not read either, resets it."""
        if not self.cycle.response_started:
            if self.scope["http_version"] != "1.0":
                self.transport.write(_CONTINUE)
        elif self._is_of_events and not self._is_quiet:
            self.transport.write(self.conn.send(h11.Data(data=_COMMENT)))
        self._looking = self.loop.call_later(_LOOK_SECONDS, self._look)

    def _with_connection(self, scope: Any, receive: Any, send: Any) -> Awaitable[None]:
        async def send_closing(message: Any) -> None:
            """Say that the connection ends where chunks are still to come: they are not parsed any more."""
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                self._is_of_events = _EVENTS_TYPE in headers
                if self.cycle.more_body and self._is_chunked and CLOSE_HEADER not in headers:
                    headers.append(CLOSE_HEADER)
                self._held.is_corked = True  # until the beginning of the body
                try:
                    await send({**message, "headers": headers})
                finally:
                    self._held.is_corked = False
            else:
                await send(message)

        scope[CONNECTION] = self
        self.received = 0
        answering: Awaitable[None] = self._answer(scope, receive, send_closing)
        return answering

    def _expect(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self.abort)

    def _expect_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Transport:
    """A connection's transport, which reads no more while it is held, and whose end waits for its caller's."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection
        self._is_paused = self._is_held = self._is_ending = False
        self._is_reading = True
        self.is_corked = False
        self._corked = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data; what came while this was corked goes before it, in one write."""
        if self.is_corked:
            self._corked += data
            return
        if self._corked:
            data, self._corked = self._corked + data, b""
        if data and not self._transport.is_closing():  # asyncio warns of writes after the caller has left
            self._transport.write(data)

    def pause_reading(self) -> None:
        self._is_paused = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._read_or_not()

    def hold(self, *, is_held: bool) -> None:
        self._is_held = is_held
        self._read_or_not()

    def is_closing(self) -> bool:
        return self._is_ending or self._transport.is_closing()

    def close(self) -> None:
        self.write(b"")
        if self.is_closing() or not self._connection.close_softly():
            self._transport.close()
            return
        self._is_ending, self._is_reading, self._is_paused, self._is_held = True, True, False, False
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()

    def _read_or_not(self) -> None:
        is_reading = not (self._is_paused or self._is_held)
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            (self._transport.resume_reading if is_reading else self._transport.pause_reading)()
