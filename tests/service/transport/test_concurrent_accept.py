"""Calls are taken in several at a time, and what is too much is refused unread; with any release of gRPC."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import pytest

from limelight_service.admission.uploads import RECEIVED
from limelight_service.errors import QueueFullError
from limelight_service.frontend.status import Status, status_of
from limelight_service.frontend.transport import concurrent_accept
from limelight_service.frontend.transport.concurrent_accept import ConcurrentAccept, is_known
from limelight_service.frontend.transport.grpc_leak import free_failed

METHOD = "/test.Echo/Predict"
CALLS = 30
_FULL = status_of(QueueFullError("too many", retry_after=1.0), "id")


@dataclass
class Echo:
    """A server that answers what it got. most: calls that may wait. seen: what was read, in order.
    begun: in which turn of the loop each was. reading: how many were being read whenever one was begun. refused: paths
    of calls that were turned away.
    """

    most: int
    port: int = 0
    turn: int = 0
    seen: list[bytes] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    reading: list[int] = field(default_factory=list)
    unread: int = 0
    refused: list[str] = field(default_factory=list)

    async def run(self, ready: Callable[[], None], over: asyncio.Event) -> None:
        free_failed(asyncio.get_running_loop())
        server = grpc.aio.server()
        handlers = {"Predict": grpc.stream_unary_rpc_method_handler(self._answer)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Echo", handlers),))
        server.add_registered_method_handlers("test.Echo", handlers)
        self.port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        services = {"test.Echo": handlers}
        ConcurrentAccept(server, services, (), self.most, self._refused).start()
        ready()
        while not over.is_set():
            self.turn += 1
            await asyncio.sleep(0)
        await server.stop(None)

    async def _answer(self, _: Any, context: Any) -> bytes:
        self.begun.append(self.turn)  # unread, as the methods of ours are
        self.unread += 1
        self.reading.append(self.unread)
        request: bytes = await context.read()
        self.unread -= 1
        RECEIVED.get()()
        self.seen.append(request)
        return request

    def _refused(self, path: str, context: Any) -> Status:
        self.refused.append(path)
        return _FULL


@contextmanager
def echoing(echo: Echo) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Run a server on a thread; gives what runs something on its loop."""
    ready, loops, over = threading.Event(), [], []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        over.append(asyncio.Event())
        await echo.run(ready.set, over[0])

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    assert ready.wait(30)
    try:
        yield loops[0].call_soon_threadsafe
    finally:
        loops[0].call_soon_threadsafe(over[0].set)
        thread.join()


def codes(echo: Echo) -> list[grpc.StatusCode]:
    """Have calls come while the event loop does something else, and give their statuses."""
    with echoing(echo) as on_loop, grpc.insecure_channel(f"127.0.0.1:{echo.port}") as channel:
        call = channel.unary_unary(METHOD)
        assert call(b"first", timeout=60) == b"first"  # the connection stands
        on_loop(lambda: time.sleep(1.0))
        calls = [call.future(b"%d" % number, timeout=60) for number in range(CALLS)]
        found = [each.code() for each in calls]
        assert call(b"last", timeout=60) == b"last"
    return found


def test_calls_that_come_together_are_taken_in_together_and_begun_with_one_in_a_turn() -> None:
    assert is_known()  # where not: look at what `concurrent_accept` uses in the new release, then say that it is
    echo = Echo(CALLS)
    assert codes(echo) == [grpc.StatusCode.OK] * CALLS
    assert echo.refused == []
    assert max(echo.begun.count(turn) for turn in echo.begun) <= 2  # one of ours, and one of gRPC's own loop
    assert max(echo.reading) <= concurrent_accept._READ_AT_ONCE + 1  # as there


def test_calls_past_what_may_wait_are_refused_unread() -> None:
    echo = Echo(4)
    found = codes(echo)
    refused = found.count(grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert 0 < refused <= CALLS - 4 and found.count(grpc.StatusCode.OK) == CALLS - refused
    assert echo.refused == [METHOD] * refused
    assert len(echo.seen) == CALLS + 2 - refused


def test_where_the_oldest_has_waited_too_long_it_is_refused_and_the_newest_is_begun_with() -> None:
    echo = Echo(CALLS)
    with echoing(echo) as on_loop, grpc.insecure_channel(f"127.0.0.1:{echo.port}") as channel:
        call = channel.unary_unary(METHOD)
        assert call(b"first", timeout=60) == b"first"
        on_loop(lambda: _take_in_and_wait(CALLS, 1.0))
        calls = [call.future(b"%d" % number, timeout=2 if number % 2 else 600) for number in range(CALLS)]
        found = [each.code() for each in calls]
        assert call(b"last", timeout=60) == b"last"
    assert set(found[::2]) == {grpc.StatusCode.OK}  # a second is next to nothing of what they have
    refused = found.count(grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert echo.refused == [METHOD] * refused
    assert len(echo.seen) >= CALLS + 2 - refused


def test_once_one_has_waited_too_long_the_next_are_refused_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrent_accept, "_CALM", 600.0)  # however slow the machine
    echo, found = Echo(CALLS), []
    with echoing(echo) as on_loop, grpc.insecure_channel(f"127.0.0.1:{echo.port}") as channel:
        call = channel.unary_unary(METHOD)
        assert call(b"first", timeout=60) == b"first"
        for seconds, deadline in ((1.0, 60), (1.0, 2), (1.0, 20)):
            on_loop(partial(_take_in_and_wait, CALLS, seconds))
            calls = [call.future(b"%d" % number, timeout=deadline) for number in range(CALLS)]
            found.append([each.code() for each in calls].count(grpc.StatusCode.RESOURCE_EXHAUSTED))
    burst, late, crowded = found
    assert burst == 0  # a second is less than a quarter of a minute
    assert late > 0
    assert crowded > 0  # a second is more than 2 % of 20 seconds


@pytest.mark.parametrize(
    ("left", "waited", "over", "over_in_a_crowd"),
    [(0.001, 0.009, False, False), (0.001, 0.011, True, True), (1.0, 0.019, False, False), (1.0, 0.021, False, True)],
)
def test_a_moment_is_no_wait_however_near_the_deadline(
    left: float, waited: float, over: bool, over_in_a_crowd: bool
) -> None:
    waiting = concurrent_accept._Waiting(None, 5.0, left)
    assert waiting.is_over(5.0 + waited, crowded=False) == over
    assert waiting.is_over(5.0 + waited, crowded=True) == over_in_a_crowd


def _take_in_and_wait(turns: int, seconds: float) -> None:
    """On the loop: let what comes be taken in, and stand still before its turn comes."""
    if turns:
        time.sleep(seconds if turns == 1 else 0.02)
        asyncio.get_running_loop().call_soon(_take_in_and_wait, turns - 1, seconds)


def test_a_release_that_nobody_has_looked_at_serves_as_well(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(grpc, "__version__", "9.9.9")
    echo = Echo(1)
    assert codes(echo) == [grpc.StatusCode.OK] * CALLS
    assert [each.message for each in caplog.records if each.name == concurrent_accept.__name__]
