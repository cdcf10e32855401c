"""The engine's surface: rows in, answers out, on an event loop that never computes."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable

from service.engine.jobs import AdmittedCall, Event
from service.engine.lanes import Lanes
from service.engine.model import Model
from service.engine.observer import NullObserver, Observer, Rejection
from service.engine.providers import Provider
from service.engine.types import Answer, Query, Step, Strategy
from service.errors import DeadlineError, ModelUnavailableError, WrongModelError
from service.settings import Settings

_LATE = "the deadline passed before the answer was there"


class Engine:
    """Answers queries on lanes (worker threads), with whatever models it is given.

    All methods are for the one event loop that `start` ran on.
    """

    def __init__(self, settings: Settings, provider: Provider, *, observer: Observer | None = None) -> None:
        self._settings = settings
        self._observer = observer or NullObserver()
        self._lanes = Lanes(provider.lanes, settings.queue_rows, self._observer)
        self._tickets = itertools.count()
        self._calls: set[AdmittedCall] = set()

    async def start(self) -> None:
        """Start the lanes."""
        self._lanes.start(asyncio.get_running_loop())

    async def stop(self, grace: float | None = None) -> None:
        """Admit no more, finish what was admitted (for at most `grace` seconds, then cut it short), stop the lanes.

        grace: None for the settings' `grace_seconds`.
        """
        await self._lanes.stop(self._settings.grace_seconds if grace is None else grace)
        for call in list(self._calls):
            call.receive(0, ModelUnavailableError("the server stopped before the answer was there"))

    async def answer(self, model: Model, query: Query) -> list[Answer]:
        """Answer each row of a query, in order. Cancelling the awaiting task cancels the rows.

        Raises: QueueFullError at once where the rows do not all fit in the queue; DeadlineError; InferenceError;
        ModelUnavailableError once the engine is stopping.
        """
        future: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        answers: list[Answer | None] = [None] * len(query.rows)
        missing = len(answers)
        if not missing:
            return []

        def receive(index: int, event: Event) -> None:
            nonlocal missing
            if future.done():
                return
            if isinstance(event, Answer):
                answers[index] = event
                missing -= 1
                if not missing:
                    future.set_result([each for each in answers if each is not None])
            elif not isinstance(event, Step):
                future.set_exception(event)

        with _Admission(self, model, query, receive, steps=False):
            return await future

    async def generate(self, model: Model, query: Query) -> AsyncIterator[Step | Answer]:
        """Put out one row's tokens as they come, then its whole answer. Closing the iterator (`aclose`) ends the work.

        Beam search has no steps. Raises, at the first `anext`: WrongModelError for a model that does not generate,
        and what `answer` raises.
        """
        if not model.generates:
            raise WrongModelError(f"{model.name} does not generate; Predict and Attend answer for it")
        if len(query.rows) != 1:
            raise ValueError("one row at a time is generated step by step")
        events: asyncio.Queue[Event] = asyncio.Queue()
        steps = query.generation.strategy is not Strategy.BEAM
        with _Admission(self, model, query, lambda _, event: events.put_nowait(event), steps=steps):
            while True:
                event = await events.get()
                if isinstance(event, Exception):
                    raise event
                yield event
                if isinstance(event, Answer):
                    return


class _Admission:
    """The time from a call's admission to its end, however it ends: then nothing of it is left in the engine."""

    def __init__(
        self, engine: Engine, model: Model, query: Query, receive: Callable[[int, Event], None], *, steps: bool
    ) -> None:
        self._engine = engine
        self._model = model
        self._call = AdmittedCall(model.seeded(query), receive, steps)
        self._jobs = model.jobs(self._call, engine._tickets, time.monotonic_ns())
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        engine, deadline = self._engine, self._call.query.deadline
        now = time.monotonic()
        if deadline is not None and deadline <= now:
            engine._observer.rejected(Rejection.DEADLINE, len(self._jobs))
            raise DeadlineError("the deadline passed before the call was admitted")
        engine._lanes.submit(self._model, self._jobs)
        engine._calls.add(self._call)
        engine._observer.in_flight(self._model.name, 1)
        if deadline is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(deadline - now, self._call.receive, 0, DeadlineError(_LATE))

    def __exit__(self, *_: object) -> None:
        engine = self._engine
        if self._timer is not None:
            self._timer.cancel()
        self._call.abandoned = True
        engine._lanes.withdraw(self._model, self._jobs)
        engine._calls.discard(self._call)
        engine._observer.in_flight(self._model.name, -1)
