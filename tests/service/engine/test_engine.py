"""The engine under load, cancellation, deadlines, overflow, failure and stop. Real models where answers matter."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest

from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row
from limelight_service.engine.engine import Engine
from limelight_service.engine.jobs import AdmittedCall, Delivered, Job, Outcome, RowEvent
from limelight_service.engine.model import Model
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.types import Answer, GenerationSettings, Query, Step, Strategy, WaitEstimate
from limelight_service.engine.watch import WATCH
from limelight_service.errors import (
    DeadlineError,
    InferenceError,
    MemoryShortError,
    ModelUnavailableError,
    OverrunError,
    QueueFullError,
)
from limelight_service.frontend.status import status_of
from limelight_service.observability.observer import Depths, NullObserver, Rejection, Stage, WorkDone
from limelight_service.settings import Settings
from tests.kit import bundles
from tests.kit.serving import eventually
from tests.service.engine.conftest import EMPTY, FakeRunner, weights_of
from tests.service.engine.generating import generating
from tests.service.engine.test_forward import assert_answers


class Panic(BaseException):
    """Exception of a library written in Rust: no `Exception`."""


@dataclass
class Count(NullObserver):
    """Adds up what it is told."""

    depths: Depths = dict
    work: Callable[[], WorkDone] = field(default=lambda: WorkDone(0, 0.0, 0.0, 0.0))
    rejections: list[tuple[Rejection, int]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=lambda: [0, 0])
    stages: set[Stage] = field(default_factory=set)

    @property
    def waiting(self) -> int:
        return sum(waiting for waiting, _ in self.depths().values())

    @property
    def calls(self) -> int:
        return sum(calls for _, calls in self.depths().values())

    def watch(self, depths: Depths, work: Callable[[], WorkDone]) -> None:
        self.depths, self.work = depths, work

    def rejected(self, reason: Rejection, rows: int) -> None:
        self.rejections.append((reason, rows))

    def batch(self, model: str, rows: int, real_tokens: int, padding_tokens: int) -> None:
        self.tokens[0] += real_tokens
        self.tokens[1] += padding_tokens

    def stage(self, model: str, stage: Stage, seconds: float) -> None:
        assert seconds >= 0
        self.stages.add(stage)


def row_of(folders: dict[str, BundleFolder], *ids: int) -> Row:
    """A row of the classifier."""
    return bundles.row(folders["tiny"], ids=list(ids))


@asynccontextmanager
async def running(workers: int = 1, observer: NullObserver | None = None, **settings: Any) -> AsyncIterator[Engine]:
    """An engine for the length of a block."""
    provider = Provider("CPUExecutionProvider", workers, workers, cores=2)
    engine = Engine(Settings(**settings), provider, observer=observer)
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop(5.0)


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own."""
    import functools

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


async def answered(engine: Engine, model: Model, query: Query) -> list[Answer]:
    """The engine's own answers, as they are."""
    return await engine.answer(model, query, lambda index, answer: answer)


async def generated(engine: Engine, model: Model, query: Query) -> AsyncIterator[Step | Answer]:
    """The engine's own steps and answer, as they are."""
    with generating(engine, model, query, lambda step: step, lambda answer: answer) as events:
        async for event in events:
            yield event


async def busy(runner: FakeRunner, batches: int = 1) -> None:
    """Wait until so many batches are on workers."""
    for _ in range(batches):
        assert await asyncio.to_thread(runner.arrived.acquire, True, 10)


@on_loop
async def test_many_calls_on_two_workers_get_their_own_answers(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    random = np.random.default_rng(0)
    texts = [random.integers(1, bundles.VOCABULARY, size=random.integers(1, 12)) for _ in range(120)]
    count = Count()
    wanted = weights_of("encoder.0.self", "encoder.1.self", "pool")

    async def call(engine: Engine, batch: list[np.ndarray]) -> None:
        query = Query(tuple(row_of(folders, *ids) for ids in batch), wanted)
        answers = await answered(engine, models["tiny"], query)
        for ids, answer in zip(batch, answers, strict=True):
            assert_answers(answer, bundles.tiny_answer(ids))
            assert answer.timing.queue >= 0
            assert answer.timing.compute > 0

    async with running(2, count) as engine:
        await asyncio.gather(*(call(engine, texts[place : place + 3]) for place in range(0, 120, 3)))
    assert (count.waiting, count.calls, count.rejections) == (0, 0, [])
    assert count.tokens[0] == sum(map(len, texts))
    assert count.stages == {
        Stage.QUEUE
    }  # batch and compute are told by the models, which have an observer of their own


@on_loop
async def test_a_call_is_admitted_whole_or_not_at_all(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    count = Count()
    async with running(1, count, queue_rows=3, max_instances=3) as engine:
        first = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 3),))))
        await busy(runner)
        waiting = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 4),) * 2)))
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError) as refused:  # while nothing can be answered
            await answered(engine, fake, Query((row_of(folders, 5),) * 2))
        assert 0 < refused.value.retry_after <= 30
        assert count.rejections == [(Rejection.QUEUE_FULL, 2)]
        fits = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 6),))))
        await asyncio.sleep(0)
        runner.gate.set()
        assert len((await first) + (await waiting) + (await fits)) == 4
    assert not any(5 in batch for batch in runner.ran)


@on_loop
async def test_a_deadline_that_is_past_costs_nothing(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    count = Count()
    async with running(1, count) as engine:
        with pytest.raises(DeadlineError):
            await answered(engine, fake, Query((row_of(folders, 3),), deadline=time.monotonic()))
    assert runner.ran == []
    assert count.rejections == [(Rejection.DEADLINE, 1)]


@on_loop
async def test_a_deadline_that_passes_in_the_queue_is_told_at_once_and_never_runs(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    count = Count()
    async with running(1, count) as engine:
        first = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 3),))))
        await busy(runner)
        with pytest.raises(DeadlineError):
            await answered(engine, fake, Query((row_of(folders, 4),), deadline=time.monotonic() + 0.05))
        assert count.waiting == 0
        runner.gate.set()
        await first
    assert runner.ran == [[3]]


@on_loop
async def test_a_cancelled_call_leaves_the_queue(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    count = Count()
    async with running(1, count) as engine:
        first = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 3),))))
        await busy(runner)
        second = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 4),) * 5)))
        await asyncio.sleep(0)
        assert count.waiting == 5
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert (count.waiting, count.rejections) == (0, [(Rejection.CANCELLED, 5)])
        runner.gate.set()
        await first
    assert runner.ran == [[3]]


@pytest.mark.parametrize("failure", [RuntimeError("/secret/path: kernel failed"), Panic("secret")])
@on_loop
async def test_a_row_that_fails_fails_no_other_and_says_nothing_of_the_runtime(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder], failure: BaseException
) -> None:
    runner.failure = failure
    runner.gate.set()
    async with running(1) as engine:
        calls = [answered(engine, fake, Query((row_of(folders, token),))) for token in (3, 9, 4)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(results[1], InferenceError)
        assert "secret" not in results[1].message
        assert results[0] == results[2] == [EMPTY]
        assert await answered(engine, fake, Query((row_of(folders, 5),))) == [EMPTY]


@on_loop
async def test_a_worker_that_does_not_come_back_is_replaced_and_told_of_once(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    other = replace(fake, runner=FakeRunner())
    other.runner.gate.set()  # type: ignore[attr-defined]
    run = runner.run

    def watched(jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        WATCH.begin(SimpleNamespace(terminate=False), 0.05)  # and nobody looks at `terminate`
        return run(jobs, wide)

    runner.run = watched  # type: ignore[method-assign]
    async with running(1) as engine:
        taken_out: list[Model] = []
        engine.on_stuck(taken_out.append)
        held = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 3),))))
        await busy(runner)
        (worker,) = [each for each in threading.enumerate() if each.name == "worker-0"]
        with pytest.raises(OverrunError, match="could not be ended"):
            await held
        while not taken_out:  # which is told in a turn of its own
            await asyncio.sleep(0.001)
        assert taken_out == [fake]
        assert await answered(engine, other, Query((row_of(folders, 4),))) == [EMPTY]
        with pytest.raises(InferenceError, match="taken out"):
            await answered(engine, fake, Query((row_of(folders, 3),)))
        runner.gate.set()  # it comes back after all: nobody hears of it, and the worker ends
        await asyncio.to_thread(worker.join, 20)
        assert not worker.is_alive()
        assert await answered(engine, other, Query((row_of(folders, 5),))) == [EMPTY]
        assert engine.activity().unended == 0


@on_loop
async def test_a_batch_that_is_too_much_together_runs_in_halves(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    first = 7
    policy = replace(fake.policy, max_rows=8, max_tokens=1000, spread=1)
    narrow = replace(fake, policy=policy)
    run = runner.run

    def limited(jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        if len(jobs) > 2:
            runner.ran.append([int(job.row.tensors["ids"][0]) for job in jobs])
            raise MemoryError("out of memory")
        return run(jobs, wide)

    runner.run = limited  # type: ignore[method-assign]
    async with running(1) as engine:
        held = asyncio.ensure_future(answered(engine, narrow, Query((row_of(folders, first),))))
        await busy(runner)
        query = Query(tuple(row_of(folders, token) for token in (1, 2, 3, 4, 5)))
        answers = asyncio.ensure_future(answered(engine, narrow, query))
        await asyncio.sleep(0.05)
        runner.gate.set()
        assert await answers == [EMPTY] * 5
        assert await held == [EMPTY]
    assert runner.ran == [[first], [1, 2, 3, 4, 5], [1, 2], [3, 4, 5], [3], [4, 5]]


@on_loop
async def test_an_instance_that_is_too_much_alone_is_told_what_to_do(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    def limited(jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        raise RuntimeError("/secret: Failed to allocate memory for requested buffer of size 14400000000")

    runner.run = limited  # type: ignore[method-assign]
    async with running(1) as engine:
        with pytest.raises(MemoryShortError, match="make it shorter") as failed:
            await answered(engine, fake, Query((row_of(folders, 3),)))
        assert "secret" not in failed.value.message
        assert status_of(failed.value, "").code is grpc.StatusCode.RESOURCE_EXHAUSTED


@on_loop
async def test_the_runtimes_own_failure_is_an_inference_error_and_the_worker_survives(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    good = row_of(folders, 3, 4)
    bad = replace(good, tensors={**good.tensors, "ids": np.array([3, 99])})
    async with running(1) as engine:
        with pytest.raises(InferenceError) as failed:
            await answered(engine, models["tiny"], Query((bad,)))
        assert "Gather" not in failed.value.message
        (answer,) = await answered(engine, models["tiny"], Query((good,)))
        assert_answers(answer, replace(bundles.tiny_answer(np.array([3, 4])), maps={}))


@on_loop
async def test_stopping_finishes_what_was_admitted_and_admits_no_more(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    async with running(1) as engine:
        first = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 3),))))
        await busy(runner)
        second = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 4),))))
        await asyncio.sleep(0)
        stopped = asyncio.ensure_future(engine.stop(10.0))
        await asyncio.sleep(0)
        with pytest.raises(ModelUnavailableError):
            await answered(engine, fake, Query((row_of(folders, 5),)))
        runner.gate.set()
        await stopped
        assert first.done() and second.done()
        assert (await first, await second) == ([EMPTY], [EMPTY])


@on_loop
async def test_what_outlasts_the_grace_is_told_so(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    async with running(1) as engine:
        first = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 3),))))
        await busy(runner)
        await engine.stop(0.05)
        with pytest.raises(ModelUnavailableError):
            await first
        runner.gate.set()


@on_loop
async def test_the_wait_estimate_is_nothing_on_an_idle_engine_and_grows_with_what_waits(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    runner.gate.set()
    runner.seconds = 0.05
    narrow = replace(fake, policy=replace(fake.policy, max_rows=1))
    async with running(1) as engine:
        assert engine.wait(narrow) == WaitEstimate()
        await answered(engine, narrow, Query((row_of(folders, 3),) * 4))
        while engine.wait(narrow) != WaitEstimate():  # until the worker is free again
            await asyncio.sleep(0.001)
        runner.gate.clear()
        waiting = asyncio.ensure_future(answered(engine, narrow, Query((row_of(folders, 3),) * 9)))
        await busy(runner, 5)
        one = engine.wait(narrow)
        # Eight that wait, the row itself and half of the one that runs, each of 0.05 s, and a quarter more.
        assert 1.25 * 9.5 * 0.05 <= one.seconds * 1.001 < 10 * 9.5 * 0.05
        assert one.seconds == pytest.approx(9.5 * one.per_row, rel=0.01)
        runner.gate.set()
        await waiting


@on_loop
async def test_workers_tell_how_long_they_were_busy_and_what_waits(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    narrow, count = replace(fake, policy=replace(fake.policy, max_rows=1)), Count()
    async with running(1, count) as engine:
        assert count.work() == WorkDone(1, 0.0, 0.0, 0.0)
        begun = time.monotonic()
        waiting = asyncio.ensure_future(answered(engine, narrow, Query((row_of(folders, 3),) * 4)))
        await busy(runner)
        before = count.work()
        await asyncio.sleep(0.05)
        assert count.work().busy - before.busy >= 0.05  # of a run under way
        assert before.waiting > 0
        runner.gate.set()
        await waiting
        assert await asyncio.to_thread(eventually, lambda: count.work().waiting == 0 and not engine.activity().running)
        rest = count.work().busy
        assert 0.05 <= rest <= time.monotonic() - begun
        assert count.work() == WorkDone(1, rest, 0.0, 0.0)  # a batch of one row is full here


@on_loop
async def test_an_admission_receives_outcomes_and_makes_no_task(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    count, received = Count(), dict[int, Outcome]()
    over = asyncio.Event()

    def receive(index: int, outcome: Outcome) -> None:
        received[index] = outcome
        if len(received) == 2:
            over.set()

    async with running(1, count) as engine:
        tasks = len(asyncio.all_tasks())
        query = fake.seeded(Query((row_of(folders, 3), row_of(folders, 4))))
        call = AdmittedCall(query, receive, lambda index, answer: (index, answer))
        engine.submit(fake, call)
        assert len(asyncio.all_tasks()) == tasks
        runner.gate.set()
        await over.wait()
        assert received == {each: Delivered((each, EMPTY), last=True) for each in (0, 1)}
        assert count.calls == 1
        engine.end(fake, call)
        engine.end(fake, call)
        assert (count.calls, count.waiting, count.rejections) == (0, 0, [])


@on_loop
async def test_an_admission_receives_its_deadline_and_closing_it_withdraws_what_waits(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    count, received = Count(), list[Outcome]()
    late = asyncio.Event()

    def receive(index: int, outcome: Outcome) -> None:
        received.append(outcome)
        late.set()

    async with running(1, count) as engine:
        first = asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 3),))))
        await busy(runner)
        query = fake.seeded(Query((row_of(folders, 4),) * 2, deadline=time.monotonic() + 0.05))
        call = AdmittedCall(query, receive, lambda index, answer: answer)
        engine.submit(fake, call)
        await late.wait()
        (outcome,) = received
        assert isinstance(outcome, DeadlineError)
        engine.end(fake, call)
        assert count.waiting == 0
        soon = fake.seeded(Query((row_of(folders, 4),), deadline=time.monotonic() + 0.2))
        call = AdmittedCall(soon, receive, lambda index, answer: answer)
        engine.submit(fake, call)
        engine.end(fake, call)
        await asyncio.sleep(0.3)
        assert len(received) == 1  # a closed admission's timer is cancelled
        runner.gate.set()
        await first
    assert runner.ran == [[3]]


@on_loop
async def test_the_loop_goes_on_while_workers_compute(
    fake: Model, runner: FakeRunner, folders: dict[str, BundleFolder]
) -> None:
    async with running(2) as engine:
        calls = [asyncio.ensure_future(answered(engine, fake, Query((row_of(folders, 3),)))) for _ in range(2)]
        await busy(runner, 2)
        assert not any(call.done() for call in calls)  # both workers hold a batch, and this line runs
        runner.gate.set()
        await asyncio.gather(*calls)


@on_loop
async def test_generate_tells_steps_then_the_answer_that_answer_gives(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    query = Query((bundles.row(folders["echo"], ids=[3, 4, 5]),), weights_of("decoder.0.cross"))
    async with running(2) as engine:
        events = [event async for event in generated(engine, models["echo"], query)]
        (answer,) = await answered(engine, models["echo"], query)
        beams = replace(query, generation=GenerationSettings(Strategy.BEAM))
        whole = [event async for event in generated(engine, models["echo"], beams)]
    last = events[-1]
    assert isinstance(last, Answer)
    assert last.sequences[0].token_ids == answer.sequences[0].token_ids
    assert [each.token_id for each in events[:-1] if isinstance(each, Step)] == list(answer.sequences[0].token_ids)
    assert len(whole) == 1 and isinstance(whole[0], Answer)


@on_loop
async def test_tokens_come_in_order_however_long_it_takes_to_tell_one(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    def told(step: Step) -> int:
        time.sleep(0.03 if step.index % 2 == 0 else 0)
        return step.index

    query = Query((bundles.row(folders["echo"], ids=[3, 4, 5]),))
    async with running(2) as engine:
        with generating(engine, models["echo"], query, told, lambda answer: -1) as events:
            (call,) = engine._calls
            indices = [each async for each in events]
    assert indices == [*range(len(indices) - 1), -1]
    assert len(indices) > 3
    assert call.generated == call.sent == len(indices) - 1  # by which a row knows whether it is ahead of its stream


@on_loop
async def test_sampling_without_a_seed_draws_afresh_and_the_seed_told_draws_the_same_again(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    row = bundles.row(folders["echo"], ids=[3, 4, 5])
    query = Query((row,), generation=GenerationSettings(Strategy.SAMPLE, temperature=5.0))
    async with running(2) as engine:
        drawn = [(await answered(engine, models["echo"], query))[0] for _ in range(8)]
        seeds = tuple(answer.seed for answer in drawn)
        again = await answered(engine, models["echo"], replace(query, rows=(row,) * 8, seeds=seeds))
    assert len({answer.sequences[0].token_ids for answer in drawn}) > 1
    assert len(set(seeds)) == 8 and None not in seeds
    assert [each.sequences[0].token_ids for each in again] == [each.sequences[0].token_ids for each in drawn]


@pytest.mark.parametrize(
    "generation",
    [
        GenerationSettings(),
        GenerationSettings(Strategy.SAMPLE, temperature=0.0),
        GenerationSettings(Strategy.SAMPLE, top_p=0.0),
        GenerationSettings(Strategy.BEAM),
    ],
)
@on_loop
async def test_what_draws_nothing_tells_no_seed_even_where_one_was_sent(
    models: dict[str, Model], folders: dict[str, BundleFolder], generation: GenerationSettings
) -> None:
    query = Query((bundles.row(folders["echo"], ids=[4, 5]),) * 2, seeds=(7, None), generation=generation)
    async with running(1) as engine:
        answers = await answered(engine, models["echo"], query)
    assert [each.seed for each in answers] == [None, None]
    if generation.strategy is not Strategy.BEAM:
        assert answers[0].sequences[0].token_ids == bundles.echo_answer(np.array([4, 5])).token_ids


@on_loop
async def test_a_forced_target_leaves_nothing_to_draw(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    row = bundles.row(folders["echo"], ids=[4, 5], target_ids=[6, 7])
    query = Query((row,), seeds=(1,), generation=GenerationSettings(Strategy.SAMPLE))
    async with running(1) as engine:
        (answer,) = await answered(engine, models["echo"], query)
    assert answer.seed is None


@on_loop
async def test_closing_a_stream_ends_the_work(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    query = Query((bundles.row(folders["echo"], ids=[3, 4, 5]),))
    count = Count()
    async with running(1, count) as engine:
        async with aclosing(generated(engine, models["echo"], query)) as events:  # type: ignore[type-var]
            async for _ in events:
                break
        assert count.calls == 0
        assert len(await answered(engine, models["echo"], query)) == 1


@on_loop
async def test_a_row_begins_before_anybody_asks_for_its_tokens(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    query = Query((bundles.row(folders["echo"], ids=[3, 4, 5]),))
    async with running(1) as engine:
        tell = lambda step: loop.call_soon_threadsafe(told.set)  # noqa: E731
        with generating(engine, models["echo"], query, tell, lambda answer: None):
            await told.wait()


@on_loop
async def test_streams_that_nobody_reads_hold_no_other_up(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    query = Query((bundles.row(folders["echo"], ids=[3, 4, 5]),))
    async with running(1) as engine, AsyncExitStack() as stack:
        for _ in range(12):
            unread = await stack.enter_async_context(aclosing(generated(engine, models["echo"], query)))  # type: ignore[type-var]
            await anext(unread)
        events = [event async for event in generated(engine, models["echo"], query)]
        (answer,) = await answered(engine, models["echo"], query)
    assert [each.token_id for each in events[:-1] if isinstance(each, Step)] == list(answer.sequences[0].token_ids)
