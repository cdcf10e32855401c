"""HTTP calls whose caller leaves, whose time is over, whose server stops or whose handler fails."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from limelight_service.admission.connections import ConnectionQueues
from limelight_service.admission.drain import DrainGate
from limelight_service.admission.memory import MemoryBudget
from limelight_service.codecs.json.v1 import error_body, error_event
from limelight_service.errors import QueueFullError
from limelight_service.frontend.call import Call
from limelight_service.frontend.http import connection
from limelight_service.frontend.http.body import BodyReader
from limelight_service.frontend.http.exchange import HttpCalls
from limelight_service.frontend.http.methods import EventsHttp, HttpRequest, HttpResponse, UnaryHttp
from limelight_service.frontend.http.server import HttpServer
from limelight_service.frontend.lifecycle import Lifecycle
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.observer import NullObserver
from limelight_service.security.access import Access
from limelight_service.settings import Settings
from tests.kit.serving import free_port
from tests.service.http.calls import parsed_events

SERVICE = "test.Service"


class Handlers:
    """Methods that begin and never end. ended: set once one was ended from outside."""

    def __init__(self) -> None:
        self.begun, self.ended, self.poured = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait(self, request: HttpRequest, call: Call) -> HttpResponse:
        await self._forever()
        return HttpResponse([b"{}"])

    async def stream(self, request: HttpRequest, call: Call) -> AsyncGenerator[bytes, None]:
        yield b'event: start\ndata: {"start":{}}\n\n'
        await self._forever()

    async def pour(self, request: HttpRequest, call: Call) -> AsyncGenerator[bytes, None]:
        """Give more pieces than asyncio lets pass without a warning, without a pause."""
        yield b'event: start\ndata: {"start":{}}\n\n'
        await self.poured.wait()
        for _ in range(200):
            yield b"x" * 1000

    async def fail(self, request: HttpRequest, call: Call) -> HttpResponse:
        raise ValueError("a secret of the inside")

    async def fail_later(self, request: HttpRequest, call: Call) -> AsyncGenerator[bytes, None]:
        yield b'event: start\ndata: {"start":{}}\n\n'
        raise QueueFullError("too much waits", retry_after=1.5)

    async def refuse(self, request: HttpRequest, call: Call) -> HttpResponse:
        raise QueueFullError("too much waits", retry_after=1.5)

    async def _forever(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@asynccontextmanager
async def serving(handlers: Handlers, drain: DrainGate) -> AsyncIterator[int]:
    settings, metrics = Settings(http_port=free_port()), Metrics()
    access = Access(settings, metrics, lambda _: None)

    def unary(path: str, handle: Callable[[HttpRequest, Call], Awaitable[HttpResponse]]) -> UnaryHttp:
        return UnaryHttp("POST", path, SERVICE, "Predict", error_body, handle=handle)

    def events(path: str, handle: Callable[[HttpRequest, Call], AsyncGenerator[bytes, None]]) -> EventsHttp:
        return EventsHttp("POST", path, SERVICE, "Generate", error_body, failed_event=error_event, handle=handle)

    methods = [
        unary("/wait", handlers.wait),
        unary("/fail", handlers.fail),
        unary("/refuse", handlers.refuse),
        events("/stream", handlers.stream),
        events("/pour", handlers.pour),
        events("/fail-later", handlers.fail_later),
    ]
    requests = MemoryBudget(2**20, "requests", NullObserver())
    bodies = BodyReader(settings.max_request_bytes, settings.arrival_seconds, requests)
    calls = HttpCalls(
        Lifecycle(metrics, drain), ConnectionQueues(8, 8, metrics), access, bodies, settings.answer_seconds
    )
    server = HttpServer(settings, access, calls, methods, {}, lambda: True)
    async with server.listening(shared=False) as port:
        yield port


async def send(port: int, path: str, headers: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    usual = "host: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
    writer.write(f"POST {path} HTTP/1.1\r\n{usual}{headers}\r\n{{}}".encode())
    return reader, writer


async def answer(port: int, path: str, headers: str = "") -> tuple[int, str]:
    """The status and the body of an answer, of which chunks are put together."""
    reader, writer = await send(port, path, headers)
    whole = (await asyncio.wait_for(reader.read(), 30)).decode()
    writer.close()
    head, _, body = whole.partition("\r\n\r\n")
    if "transfer-encoding: chunked" in head.lower():
        parts = []
        while body:
            size, _, rest = body.partition("\r\n")
            parts.append(rest[: int(size, 16)])
            body = rest[int(size, 16) + 2 :]
        body = "".join(parts)
    return int(head.split()[1]), body


def tried(test: Callable[[Handlers, DrainGate, int], Awaitable[Any]]) -> Any:
    """Run a test on a server of its own; no call may be left inside."""

    async def run() -> Any:
        handlers, drain = Handlers(), DrainGate()
        async with serving(handlers, drain) as port:
            found = await test(handlers, drain, port)
            await asyncio.wait_for(drain.finish(1.0), 30)
        return found

    return asyncio.run(run())


@pytest.mark.parametrize("path", ["/wait", "/stream"])
def test_a_caller_who_leaves_ends_the_handler(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_LOOK_SECONDS", 0.05)

    async def test(handlers: Handlers, drain: DrainGate, port: int) -> None:
        _, writer = await send(port, path)
        await asyncio.wait_for(handlers.begun.wait(), 30)
        writer.close()
        await asyncio.wait_for(handlers.ended.wait(), 30)

    tried(test)


def test_a_caller_who_leaves_in_the_middle_of_a_stream_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    async def test(handlers: Handlers, drain: DrainGate, port: int) -> None:
        reader, writer = await send(port, "/pour")
        await asyncio.wait_for(reader.readuntil(b"event: start"), 30)
        connected: socket.socket = writer.get_extra_info("socket")
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()  # resets it
        handlers.poured.set()
        await asyncio.sleep(0.2)

    with caplog.at_level("WARNING", "asyncio"):
        tried(test)
    assert not caplog.records


def test_a_caller_who_sends_no_more_and_waits_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked whether it is there by what a client passes over."""
    monkeypatch.setattr(connection, "_LOOK_SECONDS", 0.02)

    async def asked(port: int, path: str) -> bytes:
        reader, writer = await send(port, path, "x-request-timeout: 0.2\r\n")
        writer.write_eof()
        whole = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return whole

    whole = tried(lambda handlers, drain, port: asked(port, "/wait"))
    *asides, last = whole.split(b"HTTP/1.1 ")[1:]
    assert len(asides) >= 2 and set(asides) == {b"100 Continue\r\n\r\n"} and last.startswith(b"504 ")
    whole = tried(lambda handlers, drain, port: asked(port, "/stream"))
    assert whole.startswith(b"HTTP/1.1 200 ") and whole.count(b"\r\n:\n\n\r\n") >= 2 and b"event: error" in whole


@pytest.mark.parametrize("path", ["/wait", "/stream"])
def test_a_deadline_ends_the_handler_and_is_told(path: str) -> None:
    async def test(handlers: Handlers, drain: DrainGate, port: int) -> tuple[int, str]:
        found = await answer(port, path, "x-request-timeout: 0.2\r\n")
        assert handlers.ended.is_set()
        return found

    check_error(tried(test), path, 504, "DEADLINE_EXCEEDED")


@pytest.mark.parametrize("path", ["/wait", "/stream"])
def test_a_stop_ends_the_handler_after_its_grace_and_is_told(path: str) -> None:
    async def test(handlers: Handlers, drain: DrainGate, port: int) -> tuple[int, str]:
        waiting = asyncio.create_task(answer(port, path))
        await asyncio.wait_for(handlers.begun.wait(), 30)
        await drain.finish(0.2)
        found = await waiting
        status, body = await answer(port, "/refuse")
        assert status == 503 and json.loads(body)["error"]["message"] == "the server is stopping"
        return found

    check_error(tried(test), path, 503, "UNAVAILABLE")


def test_a_failure_that_nobody_foresaw_tells_nothing_of_the_inside() -> None:
    status, body = tried(lambda handlers, drain, port: answer(port, "/fail"))
    assert status == 500 and "something went wrong in the server" in body and "secret" not in body


def test_a_stream_that_fails_ends_with_the_error_and_the_time_to_come_back() -> None:
    error = check_error(tried(lambda handlers, drain, port: answer(port, "/fail-later")), "/stream", 429)
    assert [each["retryDelay"] for each in error["details"] if "retryDelay" in each] == ["1.500s"]


def test_the_time_to_come_back_is_a_header_in_whole_seconds() -> None:
    async def test(handlers: Handlers, drain: DrainGate, port: int) -> str:
        reader, writer = await send(port, "/refuse")
        whole = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return whole.decode()

    whole = tried(test)
    assert whole.startswith("HTTP/1.1 429 ") and "\r\nretry-after: 2\r\n" in whole


def check_error(found: tuple[int, str], path: str, code: int, name: str = "RESOURCE_EXHAUSTED") -> Any:
    """An error has its status; in a stream that has begun, it is the last event."""
    status, body = found
    if path == "/stream":
        assert status == 200
        start, (kind, last) = parsed_events(body)
        assert start[0] == "start" and kind == "error"
    else:
        assert status == code
        last = json.loads(body)
    assert (last["error"]["code"], last["error"]["status"]) == (code, name)
    return last["error"]
