"""One request over HTTP, from its arrival to its end: identity, token, deadline, body, answer, metrics and log line."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any

import grpc
import numpy as np
import orjson

from limelight_bundle.errors import InputError
from limelight_bundle.values import Array
from limelight_service.admission.connections import ConnectionQueues
from limelight_service.errors import DeadlineError
from limelight_service.frontend.http.body import BodyReader, CallerLeftError
from limelight_service.frontend.http.connection import CONNECTION, Connection
from limelight_service.frontend.http.failures import Failure, MediaTypeError, failure_of
from limelight_service.frontend.http.methods import (
    EVENTS,
    HEADERS,
    JSON,
    EventsHttp,
    HttpMethod,
    HttpRequest,
    HttpResponse,
    UnaryHttp,
)
from limelight_service.frontend.lifecycle import CalledMethod, Lifecycle
from limelight_service.frontend.status import REQUEST_ID_KEY
from limelight_service.observability.traces import http_span
from limelight_service.security.access import Access

TIMEOUT_HEADER = "x-request-timeout"
LONGEST_TIMEOUT = 86_400.0  # seconds
# nginx keeps up to 8 KB of an answer to itself unless the answer says otherwise.
_EVENTS_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
_ID = REQUEST_ID_KEY.encode()
_NOBODY_HEARS = 499  # nginx's status of a request whose caller left before the answer
_PIECE = 2**16  # bytes of an answer that are given to the transport at a time


class HttpCalls:
    """Makes ASGI applications of methods. For one event loop.

    answer_seconds: that a piece of an answer may wait for its reader.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        connections: ConnectionQueues,
        access: Access,
        bodies: BodyReader,
        answer_seconds: float,
    ) -> None:
        self.lifecycle = lifecycle
        self.connections = connections
        self.access = access
        self.bodies = bodies
        self.answer_seconds = answer_seconds

    def endpoint(self, method: HttpMethod) -> Callable[[Any, Any, Any], Coroutine[Any, Any, None]]:
        """Make the application of a method, which `starlette.routing.Route` calls once path and verb fit."""
        kind = "http_stream" if isinstance(method, EventsHttp) else "http"
        span = http_span(method.verb, method.path.replace(":name}", "}"))
        return _Endpoint(self, method, self.lifecycle.method(kind, method.service, method.name, span))


class _Endpoint:
    def __init__(self, calls: HttpCalls, method: HttpMethod, called: CalledMethod) -> None:
        self._calls = calls
        self._method = method
        self._called = called

    def __call__(self, scope: Any, receive: Any, send: Any) -> Coroutine[Any, Any, None]:
        return _Exchange(self._calls, self._method, self._called, scope, receive, send).run()


class _Exchange:
    """The bookkeeping of one request and its answer."""

    def __init__(
        self, calls: HttpCalls, method: HttpMethod, called: CalledMethod, scope: Any, receive: Any, send: Any
    ) -> None:
        self._calls = calls
        self._method = method
        self._scope = scope
        self._receive = receive
        self._send_message = send
        self._headers: Mapping[str, str] = scope[HEADERS]
        self._running = calls.lifecycle.begin(called, self._headers.get(REQUEST_ID_KEY), self._headers.items())
        self._call = self._running.call
        self._connection: Connection = scope[CONNECTION]
        self._has_begun = False  # the answer
        self._sends_events = False
        self._status = _NOBODY_HEARS  # of the answer, once it has begun
        self._has_left = False  # the caller

    async def run(self) -> None:
        """Answer the request, whatever becomes of it."""
        code = grpc.StatusCode.OK
        try:
            self._admit()
            await (self._inside() if self._call.deadline is None else self._in_time(self._call.deadline))
        except CallerLeftError:
            code = grpc.StatusCode.CANCELLED
        except BaseException as error:
            status = self._running.status(error)
            if status is None:
                code = grpc.StatusCode.CANCELLED
                raise
            code = status.code
            with suppress(CallerLeftError):
                await self._send_failure(failure_of(error, status))
        finally:
            self._call.at_end.close()
            self._running.end(code, self._status)

    def _admit(self) -> None:
        """Check who calls and how long it waits, before anything of the body is read."""
        call, calls = self._call, self._calls
        call.caller = calls.access.caller([self._headers["authorization"]] if "authorization" in self._headers else ())
        call.caller.check_method(self._method.right or self._method.name)
        call.deadline = _deadline(self._headers)
        self._running.enter(stream=isinstance(self._method, EventsHttp))

    async def _in_time(self, deadline: float) -> None:
        """Answer, unless the deadline passes before."""
        limit = asyncio.timeout_at(deadline)  # a loop's time is the monotonic clock's
        try:
            async with limit:
                await self._inside()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise DeadlineError("the deadline passed before the answer was there") from error

    async def _inside(self) -> None:
        """Wait for a part of the share of the caller's host, whose connections have a call each, and answer.

        Raises: CallerLeftError as soon as the caller has left.
        """
        connections, host = self._calls.connections, f"http:{(self._scope['client'] or ('',))[0]}"
        task = self._running.task

        def leave() -> None:
            self._has_left = True
            task.cancel()

        self._connection.when_lost = leave
        try:
            connection = connections.enter(host) or await connections.wait(host)
            try:
                await self._answered()
            finally:
                connections.leave(host, connection)
        except asyncio.CancelledError:
            if not self._has_left:
                raise
            task.uncancel()
            raise CallerLeftError from None
        finally:
            self._connection.when_lost = None

    async def _answered(self) -> None:
        """Read the request, have it handled and send the answer."""
        method, call = self._method, self._call
        _check_media_type(method, self._headers)
        body = await self._calls.bodies.read(self._headers, self._receive, call.at_end, self._connection)
        self._connection.flow.resume_reading()  # or nobody would hear that the caller leaves
        request = HttpRequest(self._scope["path_params"], self._headers, body)
        del body
        if isinstance(method, UnaryHttp):
            answer = await method.handle(request, call)
            if isinstance(answer, HttpResponse):
                await self._send(answer)
                return
            generated = answer.events
        else:
            generated = method.handle(request, call)
        async with aclosing(generated) as events:
            await self._send_events(events)

    async def _send(self, response: HttpResponse) -> None:
        """Send an answer in pieces, each once the one before is on its way: what waits is not held by the transport."""
        if len(response.parts) == 1 and isinstance(data := response.parts[0], bytes) and len(data) <= _PIECE:
            await self._begin(response.status, response.media_type, len(data), response.headers)
            await self._pass(data, more=False)  # less than what the transport takes without a wait
            return
        parts = [_as_bytes(each) for each in response.parts]
        await self._begin(response.status, response.media_type, sum(map(len, parts)), response.headers)
        for part in parts:
            for start in range(0, len(part), _PIECE):
                await self._pass(bytes(part[start : start + _PIECE]), more=True)
        await self._pass(b"", more=False)

    async def _send_events(self, events: AsyncGenerator[bytes, None]) -> None:
        async for event in events:
            if not self._has_begun:  # what fails before the first event has a status of its own
                self._sends_events = True
                await self._begin(200, EVENTS, None, _EVENTS_HEADERS)
            await self._pass(event, more=True)
        await self._pass(b"", more=False)

    def _begin(self, status: int, media_type: str, size: int | None, headers: Mapping[str, str]) -> Awaitable[None]:
        """Send the head of an answer. size: of its body; None for one in chunks."""
        self._has_begun, self._status = True, status
        encoded = [(_ID, self._call.identity.encode("latin-1")), (b"content-type", media_type.encode())]
        if size is not None:
            encoded.append((b"content-length", b"%d" % size))
        if headers:
            encoded += [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        message = {"type": "http.response.start", "status": status, "headers": encoded}
        found: Awaitable[None] = self._send_message(message)
        return found

    async def _pass(self, data: bytes, *, more: bool) -> None:
        """Give a piece of the answer to the transport, which waits for the reader.

        Raises: CallerLeftError for a reader who does not read.
        """
        message = {"type": "http.response.body", "body": data, "more_body": more}
        if not self._connection.flow.write_paused:  # nothing to wait for
            await self._send_message(message)
            return
        try:
            async with asyncio.timeout(self._calls.answer_seconds):
                await self._send_message(message)
        except TimeoutError:
            self._connection.abort()
            raise CallerLeftError from None

    async def _send_failure(self, failure: Failure) -> None:
        method = self._method
        if not self._has_begun:
            body = orjson.dumps(method.failed(failure))
            await self._send(HttpResponse([body], JSON, failure.status, failure.headers))
        elif self._sends_events and method.failed_event is not None:
            await self._pass(method.failed_event(failure), more=False)
        else:
            self._connection.abort()


def _as_bytes(part: bytes | Array) -> memoryview:
    """Give the bytes of a part of an answer, without a copy."""
    if isinstance(part, bytes):
        return memoryview(part)
    return memoryview(np.ascontiguousarray(part).reshape(-1).view(np.uint8))  # type: ignore[arg-type]  # is a buffer


def _deadline(headers: Mapping[str, str]) -> float | None:
    """Read the time that the caller waits. Raises: InputError."""
    text = headers.get(TIMEOUT_HEADER)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_TIMEOUT:
        raise InputError(TIMEOUT_HEADER, f"is {text[:32]!r}; it is a number of seconds up to {LONGEST_TIMEOUT:g}")
    return time.monotonic() + seconds


def _check_media_type(method: HttpMethod, headers: Mapping[str, str]) -> None:
    """Refuse a body of another kind, such as that of a form, which any page can have a browser send.

    Raises: MediaTypeError.
    """
    if headers.get("content-type") in method.media_types:
        return
    has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    found = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method.verb == "POST" and has_body and found not in method.media_types:
        there = " or ".join(each for each in method.media_types if each)
        raise MediaTypeError("content-type", f"is {found[:64] or 'missing'}; send {there}")
