"""Preprocessing on threads: fair between calls, cancellable, never for a call that is late."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from limelight_service.errors import DeadlineError, InferenceError, ModelUnavailableError
from limelight_service.frontend import preprocessing
from limelight_service.frontend.preprocessing import PreprocessingPool


@dataclass
class Gate:
    """Instances that wait until they are let through. ran: those that have begun, in order."""

    begun: list[str] = field(default_factory=list)
    opened: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def prepare(self, name: str) -> Callable[[int], str]:
        """Make the function of a call whose instances wait."""

        def prepare(place: int) -> str:
            self.begun.append(f"{name}{place}")
            assert self.opened.acquire(timeout=60)
            return f"{name}{place}"

        return prepare

    def open(self, count: int) -> None:
        """Let so many instances through."""
        for _ in range(count):
            self.opened.release()


@asynccontextmanager
async def pool(threads: int = 1) -> AsyncIterator[PreprocessingPool]:
    """Threads for the length of a block."""
    made = PreprocessingPool(threads)
    try:
        yield made
    finally:
        made.close()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 120))  # type: ignore[arg-type]


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is true."""
    while not condition():
        await asyncio.sleep(0.01)


class Panic(BaseException):
    """The failure of a library written in Rust: no `Exception`."""


def test_a_librarys_panic_ends_its_call_and_no_thread() -> None:
    def panics(_: int) -> str:
        raise Panic("of what was sent")

    async def test() -> None:
        async with pool() as threads:
            for _ in range(2):
                with pytest.raises(InferenceError, match="failed on this input"):
                    await threads.run(1, panics, None)
                assert await threads.run(1, str, None) == ["0"]

    run(test)


def test_a_small_call_does_not_wait_for_a_large_one_before_it() -> None:
    async def test() -> None:
        gate = Gate()
        async with pool() as threads:
            large = asyncio.ensure_future(threads.run(10, gate.prepare("large"), None))
            await until(lambda: gate.begun)
            small = asyncio.ensure_future(threads.run(1, gate.prepare("small"), None))
            await asyncio.sleep(0.05)
            gate.open(11)
            assert await small == ["small0"]
            assert await large == [f"large{place}" for place in range(10)]
            assert gate.begun.index("small0") <= 2

    run(test)


def test_threads_share_the_instances_of_one_call_and_they_come_in_order() -> None:
    async def test() -> None:
        both = threading.Barrier(2)

        def prepare(place: int) -> int:
            both.wait(60)  # nobody gets through alone
            return place

        async with pool(2) as threads:
            assert await threads.run(6, prepare, None) == list(range(6))

    run(test)


def test_a_cancelled_call_frees_its_thread_after_the_instance_under_way() -> None:
    async def test() -> None:
        gate = Gate()
        async with pool() as threads:
            cancelled = asyncio.ensure_future(threads.run(50, gate.prepare("gone"), None))
            await until(lambda: gate.begun)
            cancelled.cancel()
            with suppress(asyncio.CancelledError):
                await cancelled
            gate.open(2)
            assert await threads.run(1, gate.prepare("next"), None) == ["next0"]
            assert gate.begun == ["gone0", "next0"]

    run(test)


def test_a_call_whose_deadline_has_passed_is_not_preprocessed() -> None:
    async def test() -> None:
        gate = Gate()
        async with pool() as threads:
            with pytest.raises(DeadlineError):
                await threads.run(1, gate.prepare("late"), time.monotonic() - 1)
        assert gate.begun == []

    run(test)


def test_a_failure_fails_its_own_call_alone() -> None:
    async def test() -> None:
        async with pool() as threads:
            with pytest.raises(ZeroDivisionError):
                await threads.run(3, lambda place: 1 // (1 - place), None)
            assert await threads.run(1, str, None) == ["0"]

    run(test)


def test_an_instance_that_stood_still_counts_little_and_many_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(preprocessing, "time", SimpleNamespace(monotonic=lambda: now[0]))

    async def test() -> None:
        async with pool() as threads:

            async def take(seconds: float, count: int) -> float:
                def prepare(place: int) -> None:
                    now[0] += seconds

                await threads.run(count, prepare, None)
                return threads.seconds_each

            for _ in range(2):  # the first of all, and a later one
                assert await take(0.5, 1) < 0.1
                assert 0.01 <= await take(0.01, 2) < 0.1
            assert await take(0.05, 30) > 0.025

    run(test)


def test_closing_fails_calls_that_wait() -> None:
    async def test() -> None:
        gate = Gate()
        async with pool() as threads:
            first = asyncio.ensure_future(threads.run(1, gate.prepare("a"), None))
            await until(lambda: gate.begun)
            second = asyncio.ensure_future(threads.run(2, gate.prepare("b"), None))
            await asyncio.sleep(0)
            threads.close()
            gate.open(1)
            with pytest.raises(ModelUnavailableError):
                await second
            assert await first == ["a0"]
            with pytest.raises(ModelUnavailableError):
                await threads.run(1, gate.prepare("c"), None)
            assert gate.begun == ["a0"]

    run(test)
