"""The engine's surface: calls of rows in, outcomes out, on an event loop that never computes."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Generic, TypeVar

from limelight_service.engine.jobs import AdmittedCall, Delivered, Job, Outcome
from limelight_service.engine.model import Model
from limelight_service.engine.runtime.chunks import ChunkRow
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.scheduling.workers import Activity, WorkerPool
from limelight_service.engine.types import Answer, Query, Step, Strategy, WaitEstimate
from limelight_service.errors import DeadlineError, ModelUnavailableError, WrongModelError
from limelight_service.observability.observer import NullObserver, Observer, Rejection
from limelight_service.settings import Settings

_Value = TypeVar("_Value")
_PAUSE = 0.01
_LATE = "the deadline passed before the answer was there"


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

    def activity(self) -> Activity:
        """Give the state of the workers now."""
        return self._workers.activity()

    async def forget(self, model: Model) -> None:
        """Forget a model without callers, after rows of abandoned calls that still run."""
        while not self._workers.forget(model):
            await asyncio.sleep(_PAUSE)

    def admit(self, model: Model, call: AdmittedCall) -> "Admission":
        """Queue all rows of a call, or none. The caller closes the admission when the call ends.

        Outcomes come through `call.receive(index, outcome)` on the event loop: `Delivered` values, or one error; the
        `DeadlineError` of a deadline that passes is among them. The seeds of the call's query are settled
        (`Model.seeded`).

        Raises:
            QueueFullError: the rows do not all fit in the queue.
            DeadlineError: the deadline has passed already.
            ModelUnavailableError: the engine is stopping.
        """
        jobs = self._jobs(model, call)
        self._workers.submit(model, jobs)
        self.admitted += 1
        self._observer.in_flight(model.name, 1)
        return Admission(self, model, call, jobs, counted=True)

    async def answer(self, model: Model, query: Query, finish: Callable[[int, Answer], _Value]) -> list[_Value]:
        """Answer each row of a query, in order. Cancelling the awaiting task cancels the rows.

        Args:
            finish: makes the returned value of row i's answer, on the worker that computed it.

        Raises:
            QueueFullError, DeadlineError, ModelUnavailableError: as `admit`.
            InferenceError: the model failed on a row.
            Exception: what `finish` raises.
        """
        if not query.rows:
            return []
        answers = Answers[_Value](len(query.rows))
        with closing(self.admit(model, AdmittedCall(model.seeded(query), answers.receive, finish))):
            return await answers.all()

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
        ahead: deque[tuple[Answers[_Value], Admission]] = deque()
        with self._workers.unfinished(), ExitStack() as under_way:
            self._observer.in_flight(model.name, 1)
            under_way.callback(self._observer.in_flight, model.name, -1)
            under_way.callback(_close, ahead)
            for row, finish in chunks:
                ahead.append(self._chunk(model.chunks, row, finish, deadline))
                if len(ahead) > self.chunks_ahead:
                    yield await _first(ahead)
            while ahead:
                yield await _first(ahead)

    def _chunk(
        self, chunks: Model, row: ChunkRow, finish: Callable[[Answer], _Value], deadline: float | None
    ) -> "tuple[Answers[_Value], Admission]":
        """Queue a further row of a call that is admitted: a full queue or a stop does not break the call off."""
        query = Query((row,), seeds=(None,), deadline=deadline)
        answers = Answers[_Value](1)
        call = AdmittedCall(query, answers.receive, lambda _, answer: finish(answer))
        jobs = self._jobs(chunks, call)
        self._workers.go_on(chunks, jobs)
        return answers, Admission(self, chunks, call, jobs, counted=False)

    @contextmanager
    def generate(
        self, model: Model, query: Query, tell: Callable[[Step], _Value], finish: Callable[[Answer], _Value]
    ) -> Iterator[AsyncIterator[_Value]]:
        """Generate one row for the length of a block: give its tokens as they come, then its whole answer.

        Asking for the next value says that the one before was sent; a row far ahead of its reader pauses. Beam search
        has no steps.

        Args:
            tell: makes the value of a token, on a worker.
            finish: makes the value of the answer, on a worker.

        Raises:
            WrongModelError: the model does not generate.
            QueueFullError, DeadlineError, ModelUnavailableError: as `admit`.
        """
        if not model.generates:
            raise WrongModelError(f"{model.name} does not generate; Predict and Attend answer for it")
        if len(query.rows) != 1:
            raise ValueError("one row at a time is generated step by step")
        outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
        call = AdmittedCall(
            model.seeded(query),
            receive=lambda _, outcome: outcomes.put_nowait(outcome),
            finish=lambda _, answer: finish(answer),
            tell=None if query.generation.strategy is Strategy.BEAM else tell,
        )
        with closing(self.admit(model, call)) as admission:
            yield _values(admission, outcomes)

    def _jobs(self, model: Model, call: AdmittedCall) -> list[Job]:
        deadline = call.query.deadline
        if deadline is not None and deadline <= time.monotonic():
            self._observer.rejected(Rejection.DEADLINE, len(call.query.rows))
            raise DeadlineError("the deadline passed before the call was admitted")
        return model.jobs(call, self._tickets, time.monotonic_ns())


class Admission:
    """The time from a call's admission until `close`; then nothing of the call is left in the engine."""

    def __init__(self, engine: Engine, model: Model, call: AdmittedCall, jobs: list[Job], *, counted: bool) -> None:
        """Made by `Engine.admit`, once the rows are queued.

        Args:
            counted: the call is one of those in flight, and no further row of one.
        """
        self._engine = engine
        self._model = model
        self._call: AdmittedCall | None = call
        self._jobs = jobs
        self._counted = counted
        self._timer: asyncio.TimerHandle | None = None
        engine._calls.add(call)
        if (deadline := call.query.deadline) is not None:
            left = max(0.0, deadline - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(left, call.receive, 0, DeadlineError(_LATE))

    def sent(self) -> None:
        """Count a token that was sent to the reader; a row that paused for its reader may go on."""
        if self._call is not None:
            self._engine._workers.sent(self._call)

    def close(self) -> None:
        """Withdraw rows that have not ended and cancel the deadline's timer. Closing again does nothing."""
        if self._call is None:
            return
        engine, call, jobs = self._engine, self._call, self._jobs
        self._call, self._jobs = None, []  # the receiver of outcomes may hold this: no cycle is left to be collected
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        call.abandoned = True
        if call.open:
            engine._workers.withdraw(self._model, jobs)
        engine._calls.discard(call)
        if self._counted:
            engine._observer.in_flight(self._model.name, -1)


async def _values(admission: Admission, outcomes: asyncio.Queue[Outcome]) -> AsyncIterator[Any]:
    while True:
        outcome = await outcomes.get()
        if not isinstance(outcome, Delivered):
            try:
                raise outcome
            finally:
                del outcome  # as in `Answers.all`
        yield outcome.value
        if outcome.last:
            return
        admission.sent()


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


def _close(ahead: deque[tuple[Answers[_Value], Admission]]) -> None:
    for _, admission in ahead:
        admission.close()
    ahead.clear()  # as in `Answers.all`


async def _first(ahead: deque[tuple[Answers[_Value], Admission]]) -> _Value:
    """Wait for the first chunk of those under way, and take it out."""
    answers, admission = ahead[0]
    (value,) = await answers.all()
    admission.close()
    ahead.popleft()
    return value
