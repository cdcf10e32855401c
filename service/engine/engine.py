"""The engine's surface: rows in, answers out, on an event loop that never computes."""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from service.engine.chunks import ChunkRow
from service.engine.jobs import AdmittedCall, News, Told
from service.engine.lane_work import Chores
from service.engine.lanes import Lanes
from service.engine.model import Model
from service.engine.observer import NullObserver, Observer, Rejection
from service.engine.providers import Provider
from service.engine.types import Answer, Outlook, Query, Step, Strategy
from service.errors import DeadlineError, ModelUnavailableError, WrongModelError
from service.settings import Settings

_Told = TypeVar("_Told")
_PAUSE = 0.01
_LATE = "the deadline passed before the answer was there"


class Engine:
    """Answers queries on lanes (worker threads), with whatever models it is given.

    All methods but `errand` are for the one event loop that `start` ran on. admitted: calls so far. chunks_ahead: how
    many chunks of a call are computed before the one is taken that comes first. takes_calls: as `Lanes` has it.
    """

    def __init__(
        self, settings: Settings, provider: Provider, *, observer: Observer | None = None, takes_calls: bool = True
    ) -> None:
        self._settings = settings
        self._provider = provider
        self._observer = observer or NullObserver()
        self._lanes = Lanes(
            provider.lanes,
            settings.queue_rows,
            self._observer,
            most_overruns=settings.max_overruns,
            takes_calls=takes_calls,
        )
        self._tickets = itertools.count()
        self.admitted = 0
        self.chunks_ahead = provider.lanes + 1
        self._calls: set[AdmittedCall] = set()

    async def start(self) -> None:
        """Start the lanes."""
        self._lanes.start(asyncio.get_running_loop())

    @property
    def has_every_core(self) -> bool:
        """True where lanes are as many as cores: other threads would take turns with them."""
        return not self._provider.is_cuda and self._provider.lanes >= self._settings.core_count

    def lend(self, chores: Chores) -> None:
        """Have lanes do something else between batches, which waits for no more than a batch of each."""
        self._lanes.lend(chores)

    def errand(self, function: Callable[[], None]) -> None:
        """Have a lane do something between two batches, and wait until it is done.

        For any thread but a lane or the event loop. Raises: what the function raises; ModelUnavailableError where the
        engine stops before it begins.
        """
        self._lanes.errand(function)

    def wake(self) -> None:
        """Have a lane look at what else there is to do."""
        self._lanes.wake()

    def on_stuck(self, take_out: Callable[[Model], None]) -> None:
        """Have something told of each model whose runs take too long, one after the other: it is run no more."""
        self._lanes.on_stuck(take_out)

    async def stop(self, grace: float | None = None) -> None:
        """Admit no more, finish what was admitted (for at most `grace` seconds, then cut it short), stop the lanes.

        grace: None for the settings' `grace_seconds`.
        """
        await self._lanes.stop(self._settings.grace_seconds if grace is None else grace)
        for call in list(self._calls):
            call.receive(0, ModelUnavailableError("the server stopped before the answer was there"))

    def check(
        self, model: Model, rows: int, ahead: int, deadline: float | None, before: float, *, streams: bool = False
    ) -> None:
        """Refuse rows that could not be answered before their deadline, by what the model's rows have been costing.

        ahead: rows that will come before them. before: seconds until they can be given to `answer`, which checks again
        when it knows the rows. streams: they are given to `generate`, and their tokens are sent as they come.
        Raises: QueueFullError.
        """
        self._lanes.check(model, rows, ahead, deadline, before, streams=streams)

    def outlook(self, model: Model, ahead: int, before: float, *, streams: bool = False) -> Outlook:
        """Expect what a call of one row would find if it came now. Arguments: as `check` has them."""
        return self._lanes.outlook(model, ahead, before, streams=streams)

    async def forget(self, model: Model) -> None:
        """Let go of a model that nobody asks any more; what an abandoned call left running is waited for."""
        while not self._lanes.forget(model):
            await asyncio.sleep(_PAUSE)

    async def answer(self, model: Model, query: Query, finish: Callable[[int, Answer], _Told]) -> list[_Told]:
        """Answer each row of a query, in order. Cancelling the awaiting task cancels the rows.

        finish: makes of row i's answer what is returned for it. It runs on the lane, as soon as the row is computed.
        Raises: QueueFullError at once where the rows do not all fit in the queue; DeadlineError; InferenceError;
        ModelUnavailableError once the engine is stopping; what `finish` raises.
        """
        if not query.rows:
            return []
        answers = _Answers[_Told](len(query.rows))
        with _Admission(self, model, AdmittedCall(model.seeded(query), answers.receive, finish)):
            return await answers.all()

    async def chunks(
        self, model: Model, chunks: Iterable[tuple[ChunkRow, Callable[[Answer], _Told]]], deadline: float | None
    ) -> AsyncGenerator[_Told, None]:
        """Compute chunks of an answer's maps, in order, a few ahead of whoever takes them: who takes them slowly has
        them computed slowly, and closing this withdraws those that are under way.

        chunks: each with what makes of its answer what is given for it, on the lane that computed it.
        Raises: DeadlineError; InferenceError; ModelUnavailableError; what the functions raise.
        """
        assert model.chunks is not None
        ahead: deque[asyncio.Task[_Told]] = deque()
        with self._lanes.unfinished():
            self._observer.in_flight(model.name, 1)
            try:
                for row, finish in chunks:
                    ahead.append(asyncio.create_task(self._chunk(model.chunks, row, finish, deadline)))
                    if len(ahead) > self.chunks_ahead:
                        yield await ahead.popleft()
                while ahead:
                    yield await ahead.popleft()
            finally:
                self._observer.in_flight(model.name, -1)  # before anything that can be cancelled
                for each in ahead:
                    each.cancel()
                await asyncio.gather(*ahead, return_exceptions=True)
                ahead.clear()  # as in `_Answers.all`

    async def _chunk(
        self, chunks: Model, row: ChunkRow, finish: Callable[[Answer], _Told], deadline: float | None
    ) -> _Told:
        query = Query((row,), seeds=(None,), deadline=deadline)
        answers = _Answers[_Told](1)
        call = AdmittedCall(query, answers.receive, lambda _, answer: finish(answer))
        with _Admission(self, chunks, call, goes_on=True):
            return (await answers.all())[0]

    @contextmanager
    def generate(
        self, model: Model, query: Query, tell: Callable[[Step], _Told], finish: Callable[[Answer], _Told]
    ) -> Iterator[AsyncIterator[_Told]]:
        """Generate one row for the length of a block. Gives its tokens as they come, then its whole answer.

        Whoever asks for the next has sent the one before; a row that is ahead of that may wait with its next step.
        tell, finish: make of a token, and of the answer, what is put out; they run on the lane.
        Beam search has no steps. Raises at once: WrongModelError for a model that does not generate, and what `answer`
        raises at once; what else it raises comes from the iterator.
        """
        if not model.generates:
            raise WrongModelError(f"{model.name} does not generate; Predict and Attend answer for it")
        if len(query.rows) != 1:
            raise ValueError("one row at a time is generated step by step")
        queue: asyncio.Queue[News] = asyncio.Queue()
        call = AdmittedCall(
            model.seeded(query),
            receive=lambda _, news: queue.put_nowait(news),
            finish=lambda _, answer: finish(answer),
            tell=None if query.generation.strategy is Strategy.BEAM else tell,
        )
        with _Admission(self, model, call):
            yield self._told(call, queue)

    async def _told(self, call: AdmittedCall, queue: asyncio.Queue[News]) -> AsyncIterator[Any]:
        while True:
            news = await queue.get()
            if not isinstance(news, Told):
                try:
                    raise news
                finally:
                    del news  # as in `_Answers.all`
            yield news.value
            if news.last:
                return
            self._lanes.sent(call)


class _Answers(Generic[_Told]):
    """Gathers what is told of each row of a call."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._told: dict[int, _Told] = {}
        self._future: asyncio.Future[list[_Told]] | None = asyncio.get_running_loop().create_future()

    def receive(self, index: int, news: News) -> None:
        """Take the news of row i."""
        if self._future is None or self._future.done():
            return
        if not isinstance(news, Told):
            self._future.set_exception(news)
            self._future.exception()  # it counts as seen, though the caller may be gone already
            return
        self._told[index] = news.value
        if len(self._told) == self._rows:
            self._future.set_result([self._told[each] for each in range(self._rows)])

    async def all(self) -> list[_Told]:
        """Wait for all of them, once. Raises the first failure."""
        assert self._future is not None
        try:
            return await self._future
        finally:
            self._future = None  # a failure's traceback holds this frame: no cycle is left to be collected


class _Admission:
    """The time from a call's admission to its end, however it ends: then nothing of it is left in the engine."""

    def __init__(self, engine: Engine, model: Model, call: AdmittedCall, *, goes_on: bool = False) -> None:
        """Prepare it. goes_on: the call is admitted already, and this is a further part of it."""
        self._engine = engine
        self._goes_on = goes_on
        self._model = model
        self._call = call
        self._jobs = model.jobs(self._call, engine._tickets, time.monotonic_ns())
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        engine, deadline = self._engine, self._call.query.deadline
        now = time.monotonic()
        if deadline is not None and deadline <= now:
            engine._observer.rejected(Rejection.DEADLINE, len(self._jobs))
            raise DeadlineError("the deadline passed before the call was admitted")
        if self._goes_on:
            engine._lanes.go_on(self._model, self._jobs)
        else:
            engine._lanes.submit(self._model, self._jobs)
            engine.admitted += 1
            engine._observer.in_flight(self._model.name, 1)
        engine._calls.add(self._call)
        if deadline is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(deadline - now, self._call.receive, 0, DeadlineError(_LATE))

    def __exit__(self, *_: object) -> None:
        engine = self._engine
        if self._timer is not None:
            self._timer.cancel()
        self._call.abandoned = True
        if self._call.open:
            engine._lanes.withdraw(self._model, self._jobs)
        engine._calls.discard(self._call)
        if self._goes_on:
            return
        engine._observer.in_flight(self._model.name, -1)
