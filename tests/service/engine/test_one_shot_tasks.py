"""One-shot tasks on workers: they take turns with batches, and end with the engine."""

import asyncio
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from limelight_bundle.reader import BundleFolder
from limelight_service.engine.jobs import Job, RowEvent
from limelight_service.engine.model import Model
from limelight_service.engine.types import Query
from limelight_service.errors import ModelUnavailableError
from tests.service.engine.conftest import FakeRunner
from tests.service.engine.test_engine import answered, busy, on_loop, row_of, running

_SECONDS = 20


@on_loop
async def test_a_task_waits_for_the_batch_that_runs_and_its_caller_gets_its_error(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    order: list[str] = []

    def errand() -> None:
        order.append(threading.current_thread().name)

    async with running(workers=1) as engine:
        call = asyncio.create_task(answered(engine, fake, Query((row_of(folders, 1),))))
        await busy(runner, 1)
        sent = asyncio.create_task(asyncio.to_thread(engine.run_task, errand))
        await asyncio.sleep(0.05)
        assert not order  # the worker computes
        runner.gate.set()
        await asyncio.gather(call, sent)
        assert order == ["worker-0"]
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(engine.run_task, lambda: 1 // 0)
        assert await answered(engine, fake, Query((row_of(folders, 1),)))  # the worker goes on


@on_loop
async def test_tasks_and_batches_take_turns(fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]) -> None:
    order: list[str] = []
    run = runner.run

    def noted(jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        order.append("batch")
        return run(jobs, wide)

    runner.run = noted  # type: ignore[method-assign]
    fake = replace(fake, policy=replace(fake.policy, max_rows=1))
    async with running(workers=1) as engine:
        call = asyncio.create_task(answered(engine, fake, Query((row_of(folders, 1),) * 4)))
        await busy(runner)
        tasks = [
            asyncio.create_task(asyncio.to_thread(engine.run_task, lambda: order.append("task"))) for _ in range(3)
        ]
        await asyncio.sleep(0.2)  # until all of them wait
        runner.gate.set()
        await asyncio.gather(call, *tasks)
    assert order == ["batch", "task", "batch", "task", "batch", "task", "batch"]


@on_loop
async def test_a_task_that_has_not_begun_ends_with_the_engine() -> None:
    began, gate = threading.Event(), threading.Event()

    def first() -> None:
        began.set()
        assert gate.wait(_SECONDS)

    async with running(workers=1) as engine:
        under_way = asyncio.create_task(asyncio.to_thread(engine.run_task, first))
        assert await asyncio.to_thread(began.wait, _SECONDS)
        waiting = asyncio.create_task(asyncio.to_thread(engine.run_task, lambda: None))
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(engine.stop(0.0))
        with pytest.raises(ModelUnavailableError, match="stopping"):
            await waiting
        gate.set()
        await asyncio.gather(stopping, under_way)
        with pytest.raises(ModelUnavailableError, match="stopping"):
            await asyncio.to_thread(engine.run_task, lambda: None)


@on_loop
async def test_a_worker_that_waits_keeps_nothing_of_a_task() -> None:
    class Loaded:
        """A model that is warmed up."""

        def warm_up(self) -> None:
            """Do nothing."""

    async with running(workers=1) as engine:
        loaded = Loaded()
        gone = weakref.ref(loaded)
        await asyncio.to_thread(engine.run_task, loaded.warm_up)
        del loaded
        end = time.monotonic() + _SECONDS
        while gone() is not None and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert gone() is None
