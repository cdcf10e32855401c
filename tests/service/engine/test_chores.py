"""What lanes do between batches: it waits for no row longer than its share, and no row waits for more of it."""

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from bundle.reader import BundleFolder
from service.engine.model import Model
from service.engine.types import Query
from service.errors import ModelUnavailableError
from tests.service.engine.conftest import FakeRunner
from tests.service.engine.test_engine import answered, busy, on_loop, row_of, running

_SECONDS = 20


@dataclass
class Chores:
    """Functions, so many of which may be under way."""

    most: int = 1
    waiting: deque[Callable[[], None]] = field(default_factory=deque)
    under_way: int = 0

    def is_ready(self) -> bool:
        """One could begin."""
        return bool(self.waiting) and self.under_way < self.most

    def take(self) -> Callable[[], None] | None:
        """The next one."""
        if not self.is_ready():
            return None
        self.under_way += 1
        return self._counted(self.waiting.popleft())

    def _counted(self, chore: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            chore()
            self.under_way -= 1

        return run


@on_loop
async def test_the_only_lane_takes_turns_between_rows_and_an_endless_row_of_chores(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    chores, over = Chores(), threading.Event()
    done = 0

    def again() -> None:
        nonlocal done
        time.sleep(0.0001)
        done += 1
        if not over.is_set():
            chores.waiting.append(again)

    runner.gate.set()
    runner.seconds = 0.001
    fake = replace(fake, policy=replace(fake.policy, max_rows=1))
    async with running(lanes=1) as engine:
        engine.lend(chores)
        chores.waiting.append(again)
        engine.wake()
        for _ in range(20):
            await answered(engine, fake, Query((row_of(folders, 1),)))
        before = done
        await answered(engine, fake, Query((row_of(folders, 1),) * 200))
        over.set()
        assert done >= before + 20  # while rows waited at all times, too


@on_loop
async def test_while_a_lane_computes_another_does_chores_and_no_more_than_may_be_under_way(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    chores, gate, begun = Chores(most=1), threading.Event(), threading.Semaphore(0)

    def chore() -> None:
        begun.release()
        assert gate.wait(_SECONDS)

    # Of more concurrent batches than one, the second row would be on the second lane.
    fake = replace(fake, policy=replace(fake.policy, concurrent=3))
    async with running(lanes=3) as engine:
        engine.lend(chores)
        chores.waiting += [chore, chore]
        engine.wake()
        assert await asyncio.to_thread(begun.acquire, timeout=_SECONDS)
        calls = [asyncio.create_task(answered(engine, fake, Query((row_of(folders, each),)))) for each in (1, 2)]
        await busy(runner, 2)  # both of the other lanes, though a chore waits that came first
        assert chores.under_way == 1 and len(chores.waiting) == 1
        gate.set()
        assert await asyncio.to_thread(begun.acquire, timeout=_SECONDS)
        runner.gate.set()
        await asyncio.gather(*calls)


@on_loop
async def test_where_many_rows_wait_lanes_do_not_all_wait_for_chores(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    chores, over = Chores(), threading.Event()
    done = 0

    def again() -> None:
        nonlocal done
        time.sleep(0.0001)
        done += 1
        if not over.is_set():
            chores.waiting.append(again)

    fake = replace(fake, policy=replace(fake.policy, max_rows=1, concurrent=2))
    async with running(lanes=2) as engine:
        engine.lend(chores)
        row = row_of(folders, 1)
        first = asyncio.create_task(answered(engine, fake, Query((row,))))
        await busy(runner)
        chores.waiting.append(again)
        engine.wake()
        second = asyncio.create_task(answered(engine, fake, Query((row,))))
        while done < 50:
            await asyncio.sleep(0.01)
        assert len(runner.ran) == 1  # what chores make joins the second row
        many = asyncio.create_task(answered(engine, fake, Query((row,) * 16)))
        await busy(runner)
        runner.gate.set()
        await asyncio.gather(first, second, many)
        over.set()


@on_loop
async def test_every_idle_lane_is_woken_for_what_there_is() -> None:
    chores, both = Chores(most=2), threading.Barrier(3)
    async with running(lanes=3) as engine:
        engine.lend(chores)
        chores.waiting += [lambda: both.wait(_SECONDS) and None] * 2
        engine.wake()  # once, for two
        await asyncio.to_thread(both.wait, _SECONDS)


@on_loop
async def test_a_lane_that_waits_keeps_nothing_of_a_chore() -> None:
    class Request:
        """What a chore has of a call."""

        def work(self) -> None:
            """Do nothing."""

    chores = Chores()
    async with running(lanes=1) as engine:
        engine.lend(chores)
        request = Request()
        gone = weakref.ref(request)
        chores.waiting.append(request.work)
        del request
        engine.wake()
        end = time.monotonic() + _SECONDS
        while gone() is not None and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert gone() is None


@on_loop
async def test_a_stop_waits_for_no_chores_that_have_not_begun() -> None:
    chores, ran = Chores(), threading.Event()

    def last() -> None:
        ran.set()
        time.sleep(0.2)

    async with running(lanes=1) as engine:
        engine.lend(chores)
        chores.waiting += [last, lambda: chores.waiting.append(last)]
        engine.wake()
        assert await asyncio.to_thread(ran.wait, _SECONDS)
    assert len(chores.waiting) == 1


@on_loop
async def test_an_errand_takes_turns_with_rows_and_whoever_sent_it_learns_what_became_of_it(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    order: list[str] = []

    def errand() -> None:
        order.append(threading.current_thread().name)

    async with running(lanes=1) as engine:
        call = asyncio.create_task(answered(engine, fake, Query((row_of(folders, 1),))))
        await busy(runner, 1)
        sent = asyncio.create_task(asyncio.to_thread(engine.errand, errand))
        await asyncio.sleep(0.05)
        assert not order  # the lane computes
        runner.gate.set()
        await asyncio.gather(call, sent)
        assert order == ["lane-0"]
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(engine.errand, lambda: 1 // 0)
        assert await answered(engine, fake, Query((row_of(folders, 1),)))  # the lane goes on


@on_loop
async def test_an_errand_that_has_not_begun_ends_with_the_lanes() -> None:
    chores, began, gate = Chores(), threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        assert gate.wait(_SECONDS)

    async with running(lanes=1) as engine:
        engine.lend(chores)
        chores.waiting.append(first)
        engine.wake()
        assert await asyncio.to_thread(began.wait, _SECONDS)
        sent = asyncio.create_task(asyncio.to_thread(engine.errand, lambda: None))
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(engine.stop(0.0))
        with pytest.raises(ModelUnavailableError, match="stopping"):
            await sent
        gate.set()
        await stopping
        with pytest.raises(ModelUnavailableError, match="stopping"):
            await asyncio.to_thread(engine.errand, lambda: None)
