"""Preparing: fair between calls, cancellable, never for what is late."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from service.engine.engine import Engine
from service.engine.providers import CPU, Provider
from service.errors import DeadlineError, InferenceError, ModelUnavailableError
from service.rpc.preparation import Instances, Preparation
from service.settings import Settings


class Kind:
    """What calls of one kind have in common."""


KIND = Kind()


@dataclass
class Gate:
    """Instances that wait until they are let through; tells what ran, in order."""

    ran: list[str] = field(default_factory=list)
    opened: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def call(self, name: str, count: int, deadline: float | None = None) -> Instances[str, list[str]]:
        """A call whose instances wait."""

        def prepare(place: int) -> str:
            assert self.opened.acquire(timeout=20)
            self.ran.append(f"{name}{place}")
            return f"{name}{place}"

        return Instances(KIND, count, 100 * count, prepare, lambda prepared: prepared, deadline)


Running = Callable[..., AbstractAsyncContextManager[Preparation]]


@asynccontextmanager
async def on_threads(most: int = 1) -> AsyncIterator[Preparation]:
    """Threads of its own for the length of a block."""
    preparation = Preparation(most)
    try:
        yield preparation
    finally:
        preparation.close()


@asynccontextmanager
async def on_lanes(most: int = 1, lanes: int = 0) -> AsyncIterator[Preparation]:
    """Lanes for the length of a block, as many as may prepare at the same time unless somebody says otherwise."""
    lanes = lanes or most
    engine = Engine(Settings(cores=lanes), Provider(CPU, lanes, lanes))
    assert engine.has_every_core
    await engine.start()
    preparation = Preparation(most, engine)
    try:
        yield preparation
    finally:
        preparation.close()
        await engine.stop()


@pytest.fixture(params=[on_threads, on_lanes])
def running(request: pytest.FixtureRequest) -> Running:
    """Where instances are prepared."""
    return request.param


async def until(holds: object) -> None:
    """Wait until something is true."""
    for _ in range(1000):
        if holds():  # type: ignore[operator]
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


class Panic(BaseException):
    """What a library written in Rust throws: no `Exception`."""


@pytest.mark.parametrize("where", ["prepare", "combine"])
def test_a_librarys_panic_ends_its_call_and_no_thread(where: str, running: Running) -> None:
    def panics(of: object) -> str:
        raise Panic("of what was sent")

    fine = Instances(KIND, 1, 1, str, lambda prepared: prepared)
    broken = Instances(KIND, 1, 1, panics if where == "prepare" else str, panics)

    async def run() -> None:
        async with running() as preparation:
            for _ in range(2):
                with pytest.raises(InferenceError, match="failed on this input"):
                    await preparation.run(broken)
                assert await preparation.run(fine) == ["0"]

    asyncio.run(run())


def test_a_small_call_does_not_wait_for_a_large_one_before_it(running: Running) -> None:
    async def test() -> None:
        gate = Gate()
        async with running() as preparation:
            large = asyncio.ensure_future(preparation.run(gate.call("large", 10)))
            gate.opened.release()
            await until(lambda: gate.ran)
            small = asyncio.ensure_future(preparation.run(gate.call("small", 1)))
            await asyncio.sleep(0.05)
            for _ in range(20):
                gate.opened.release()
            assert await small == ["small0"]
            assert await large == [f"large{place}" for place in range(10)]
            assert gate.ran.index("small0") <= 3

    asyncio.run(test())


def test_threads_share_the_instances_of_one_call_and_they_come_in_order(running: Running) -> None:
    async def test() -> None:
        both = threading.Barrier(2)

        def prepare(place: int) -> int:
            both.wait(20)  # nobody gets through alone
            return place

        async with running(2) as preparation:
            found = await preparation.run(Instances(KIND, 6, 10, prepare, lambda prepared: prepared))
        assert found == list(range(6))

    asyncio.run(test())


def test_what_was_abandoned_frees_its_thread_after_the_instance_under_way(running: Running) -> None:
    async def test() -> None:
        gate = Gate()
        async with running() as preparation:
            abandoned = asyncio.ensure_future(preparation.run(gate.call("gone", 50)))
            gate.opened.release()
            await until(lambda: gate.ran)
            abandoned.cancel()
            with suppress(asyncio.CancelledError):
                await abandoned
            for _ in range(10):
                gate.opened.release()
            assert await preparation.run(gate.call("next", 1)) == ["next0"]
            assert len([each for each in gate.ran if each.startswith("gone")]) <= 2
            assert preparation.expected_seconds(KIND, 100) == 0

    asyncio.run(test())


def test_what_is_late_is_not_prepared(running: Running) -> None:
    async def test() -> None:
        gate = Gate()
        async with running() as preparation:
            with pytest.raises(DeadlineError):
                await preparation.run(gate.call("late", 1, deadline=time.monotonic() - 1))
        assert gate.ran == []

    asyncio.run(test())


def test_a_failure_fails_its_own_call_alone(running: Running) -> None:
    async def test() -> None:
        def prepare(place: int) -> int:
            if place == 1:
                raise ValueError("bad")
            return place

        async with running() as preparation:
            with pytest.raises(ValueError, match="bad"):
                await preparation.run(Instances(KIND, 3, 10, prepare, lambda prepared: prepared))
            with pytest.raises(ZeroDivisionError):
                await preparation.run(Instances(KIND, 1, 10, lambda place: place, lambda prepared: 1 // 0))
            assert await preparation.run(Instances(KIND, 1, 10, prepare, len)) == 1

    asyncio.run(test())


def test_what_waits_is_expected_to_take_what_such_calls_have_taken(running: Running) -> None:
    async def test() -> None:
        gate = Gate()
        async with running() as preparation:
            assert preparation.expected_seconds(KIND, 10**9) == 0

            def slow(place: int) -> int:
                time.sleep(0.05)
                return place

            await preparation.run(Instances(KIND, 2, 200, slow, len))
            waiting = asyncio.ensure_future(preparation.run(gate.call("waits", 4)))
            await asyncio.sleep(0)
            expected = preparation.expected_seconds(KIND, 200)
            for _ in range(4):
                gate.opened.release()
            await waiting
            assert 0.2 <= expected < 3

    asyncio.run(test())


def test_a_small_call_is_not_expected_to_wait_for_all_of_a_large_one(running: Running) -> None:
    async def test() -> None:
        gate = Gate()
        async with running() as preparation:
            await preparation.run(Instances(KIND, 1, 100, lambda _: time.sleep(0.05), len))
            large = asyncio.ensure_future(preparation.run(gate.call("large", 1000)))
            await asyncio.sleep(0)
            alike, small = (preparation.expected_seconds(KIND, 100 * count) for count in (1000, 1))
            large.cancel()
            gate.opened.release()
            assert small < alike / 20

    asyncio.run(test())


def test_stopping_fails_what_waits(running: Running) -> None:
    async def test() -> None:
        gate = Gate()
        async with running() as preparation:
            first = asyncio.ensure_future(preparation.run(gate.call("a", 1)))
            await until(lambda: preparation._unfinished and not preparation._waiting)  # a thread has it
            second = asyncio.ensure_future(preparation.run(gate.call("b", 2)))
            await until(lambda: preparation._waiting)
            preparation.close()
            gate.opened.release()
            with pytest.raises(ModelUnavailableError):
                await second
            assert await first == ["a0"]
            with pytest.raises(ModelUnavailableError):
                await preparation.run(gate.call("c", 1))

    asyncio.run(test())
