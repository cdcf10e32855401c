"""The engine's surface: calls of rows in, outcomes out, on an event loop that never computes."""

import asyncio
import itertools
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Generic, TypeVar

from limelight_service.engine.jobs import AdmittedCall, Delivered, Job, Outcome
from limelight_service.engine.model import Model
from limelight_service.engine.runtime.chunks import ChunkRow
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.scheduling.workers import Activity, WorkerPool
from limelight_service.engine.types import Answer, Query, WaitEstimate
from limelight_service.errors import DeadlineError, ModelUnavailableError
from limelight_service.observability.observer import NullObserver, Observer, Rejection
from limelight_service.settings import Settings

_Value = TypeVar("_Value")
_PAUSE = 0.01
_LATE = "the deadline passed before the answer was there"


class Answers(Generic[_Value]):
    """Collects the values of all rows of a call."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._values: dict[int, _Value] = {}
        self._future: asyncio.Future[list[_Value]] | None = asyncio.get_running_loop().create_future()

    def receive(self, index: int, outcome: Outcome) -> None:
        """Take the outcome of row i."""
        if self._future is None or self._future.done():
            return
        if not isinstance(outcome, Delivered):
            self._future.set_exception(outcome)
            self._future.exception()  # it counts as seen, though the caller may be gone already
            return
        self._values[index] = outcome.value
        if len(self._values) == self._rows:
            self._future.set_result([self._values[each] for each in range(self._rows)])

    async def all(self) -> list[_Value]:
        """Wait for all of them, once. Raises the first failure."""
        assert self._future is not None
        try:
            return await self._future
        finally:
            self._future = None  # a failure's traceback holds this frame: no cycle is left to be collected


class Engine:
    """Answers calls of rows on worker threads, for all models of one device.

    All methods but `run_task` are for the event loop that `start` ran on.

    Attributes:
        admitted: calls so far.
        chunks_ahead: chunks of a call that are computed before the first of them is taken.
    """

    def __init__(self, settings: Settings, provider: Provider, *, observer: Observer | None = None) -> None:
        self._settings = settings
        self._observer = observer or NullObserver()
        self._workers = WorkerPool(
            provider.workers, settings.queue_rows, self._observer, most_overruns=settings.max_overruns
        )
        self._tickets = itertools.count()
        self.admitted = 0
        self.chunks_ahead = provider.workers + 1
        self._calls: set[AdmittedCall] = set()
        self._in_flight: Counter[str] = Counter()  # calls by the name of their model
        self._observer.watch(self._depths, self._workers.work)

    async def start(self) -> None:
        """Start the workers."""
        self._workers.start(asyncio.get_running_loop())

    def run_task(self, function: Callable[[], None]) -> None:
        """Run a one-shot task on a worker, in turns with batches, and wait until the task is done.

        For any thread but a worker or the event loop.

        Raises:
            ModelUnavailableError: the engine stops before the task begins.
            Exception: what the function raises.
        """
        self._workers.run_task(function)

    def on_stuck(self, take_out: Callable[[Model], None]) -> None:
        """Set a function that is called for each model whose runs take too long; such a model is run no more."""
        self._workers.on_stuck(take_out)

    async def stop(self, grace: float | None = None) -> None:
        """Admit no more, finish what was admitted for at most `grace` seconds, and stop the workers.

        Args:
            grace: None for the settings' `grace_seconds`.
        """
        await self._workers.stop(self._settings.grace_seconds if grace is None else grace)
        for call in list(self._calls):
            call.receive(0, ModelUnavailableError("the server stopped before the answer was there"))

    def wait(self, model: Model) -> WaitEstimate:
        """Estimate when a row of a model that arrives now is answered, with a margin for later arrivals.

        For a generating model the estimate includes the time that streams of tokens need on the event loop.

        Returns:
            Zeros while a worker is free and nothing waits.
        """
        return self._workers.wait(model)

    def waits(self) -> dict[Model, WaitEstimate]:
        """Estimate it for every model for which a row would have to wait."""
        estimates = {model: self._workers.wait(model) for model in self._workers.busy() if model.chunks is not None}
        return {model: estimate for model, estimate in estimates.items() if estimate.seconds}

    def _depths(self) -> dict[str, tuple[int, int]]:
        waiting, calls = self._workers.waiting(), dict(self._in_flight)
        return {name: (waiting.get(name, 0), calls.get(name, 0)) for name in {*waiting, *calls}}

    def activity(self) -> Activity:
        """Give the state of the workers now."""
        return self._workers.activity()

    async def forget(self, model: Model) -> None:
        """Forget a model without callers, after rows of abandoned calls that still run."""
        while not self._workers.forget(model):
            await asyncio.sleep(_PAUSE)
        if not self._in_flight[model.name]:
            del self._in_flight[model.name]

    def submit(self, model: Model, call: AdmittedCall) -> None:
        """Queue all rows of a call, or none. `end` is to be called once nobody wants more of it.

        Outcomes come through `call.receive(index, outcome)` on the event loop: `Delivered` values, or one error; the
        `DeadlineError` of a deadline that passes is among them. The seeds of the call's query are settled
        (`Model.seeded`).

        Raises:
            QueueFullError: the rows do not all fit in the queue.
            DeadlineError: the deadline has passed already.
            ModelUnavailableError: the engine is stopping.
        """
        self._workers.submit(model, self._jobs(model, call))
        self.admitted += 1
        self._in_flight[model.name] += 1
        self._begin(call)

    def sent(self, call: AdmittedCall) -> None:
        """Count a token that was sent to the reader; a row that paused for its reader may go on."""
        if call.jobs:
            self._workers.sent(call)

    def end(self, model: Model, call: AdmittedCall) -> None:
        """End a call: rows that have not ended are withdrawn. To end it again does nothing."""
        if call.jobs:
            self._end(model, call)
            self._in_flight[model.name] -= 1
            if call.on_end is not None:
                call.on_end()

    async def answer(self, model: Model, query: Query, finish: Callable[[int, Answer], _Value]) -> list[_Value]:
        """Answer each row of a query, in order. Cancelling the awaiting task cancels the rows.

        Args:
            finish: makes the returned value of row i's answer, on the worker that computed it.

        Raises:
            QueueFullError, DeadlineError, ModelUnavailableError: as `submit`.
            InferenceError: the model failed on a row.
            Exception: what `finish` raises.
        """
        if not query.rows:
            return []
        answers = Answers[_Value](len(query.rows))
        call = AdmittedCall(model.seeded(query), answers.receive, finish)
        self.submit(model, call)
        try:
            return await answers.all()
        finally:
            self.end(model, call)

    async def chunks(
        self, model: Model, chunks: Iterable[tuple[ChunkRow, Callable[[Answer], _Value]]], deadline: float | None
    ) -> AsyncGenerator[_Value, None]:
        """Compute chunks of an answer's maps, in order, at most `chunks_ahead` before the one that is taken next.

        A slow reader has them computed slowly; closing the generator withdraws those that are under way.

        Args:
            chunks: rows, each with the function that makes the yielded value of its answer, on a worker.
            deadline: on the clock of `time.monotonic`; None for no limit.

        Raises:
            DeadlineError: the deadline passed.
            InferenceError: a chunk could not be computed.
            ModelUnavailableError: the engine stopped.
            Exception: what the functions raise.
        """
        assert model.chunks is not None
        ahead: deque[tuple[Answers[_Value], AdmittedCall]] = deque()
        with self._workers.unfinished(), ExitStack() as under_way:
            self._in_flight[model.name] += 1
            under_way.callback(self._in_flight.subtract, [model.name])
            under_way.callback(self._end_all, model.chunks, ahead)
            for row, finish in chunks:
                ahead.append(self._chunk(model.chunks, row, finish, deadline))
                if len(ahead) > self.chunks_ahead:
                    yield await self._first(model.chunks, ahead)
            while ahead:
                yield await self._first(model.chunks, ahead)

    def _chunk(
        self, chunks: Model, row: ChunkRow, finish: Callable[[Answer], _Value], deadline: float | None
    ) -> tuple[Answers[_Value], AdmittedCall]:
        """Queue a further row of a call that is admitted: a full queue or a stop does not break the call off."""
        query = Query((row,), seeds=(None,), deadline=deadline)
        answers = Answers[_Value](1)
        call = AdmittedCall(query, answers.receive, lambda _, answer: finish(answer))
        self._workers.go_on(chunks, self._jobs(chunks, call))
        self._begin(call)
        return answers, call

    async def _first(self, chunks: Model, ahead: deque[tuple[Answers[_Value], AdmittedCall]]) -> _Value:
        """Wait for the first chunk of those under way, and take it out."""
        answers, call = ahead[0]
        (value,) = await answers.all()
        self._end(chunks, call)
        ahead.popleft()
        return value

    def _end_all(self, chunks: Model, ahead: deque[tuple[Answers[_Value], AdmittedCall]]) -> None:
        for _, call in ahead:
            self._end(chunks, call)
        ahead.clear()  # as in `Answers.all`

    def _jobs(self, model: Model, call: AdmittedCall) -> Sequence[Job]:
        deadline = call.query.deadline
        if deadline is not None and deadline <= time.monotonic():
            self._observer.rejected(Rejection.DEADLINE, len(call.query.rows))
            raise DeadlineError("the deadline passed before the call was admitted")
        call.jobs = model.jobs(call, self._tickets, time.monotonic_ns())
        call.open = len(call.jobs)
        return call.jobs

    def _begin(self, call: AdmittedCall) -> None:
        self._calls.add(call)
        if (deadline := call.query.deadline) is not None:
            left = max(0.0, deadline - time.monotonic())
            call.timer = asyncio.get_running_loop().call_later(left, call.receive, 0, DeadlineError(_LATE))

    def _end(self, model: Model, call: AdmittedCall) -> None:
        """Withdraw rows that have not ended, and leave no cycle: the receiver of outcomes may hold the call."""
        jobs, call.jobs = call.jobs, ()
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None
        call.abandoned = True
        if call.open:
            self._workers.withdraw(model, jobs)
        self._calls.discard(call)
