"""The way of outcomes from workers to the event loop, also of rows whose worker does not come back."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from limelight_bundle.errors import LimelightError
from limelight_service.engine.jobs import Delivered, Event, Job, Outcome, RowEvent
from limelight_service.engine.model import Model, StepRunner
from limelight_service.errors import InferenceError, OverrunError
from limelight_service.platform.averages import moved

logger = logging.getLogger(__name__)

_NEWEST = 0.1  # how much the newest delay counts
_LOST = "the model took too long on this input, and could not be ended"


@dataclass(eq=False)
class _RunningWork:
    """The work of one worker: a run of a model, or a step of a continuous batch of it.

    Attributes:
        left: rows that began with it and have no outcome yet, by ticket.
        is_lost: the worker does not come back from a run.
    """

    model: Model
    batch: StepRunner | None
    left: dict[int, Job]
    is_lost: bool = False


class EventDispatcher:
    """Takes events of rows on workers and hands outcomes to calls, in one call of the loop for many of them.

    Attributes:
        delay: seconds from an event to its turn of the loop, of late.
    """

    def __init__(self, finished: Callable[[int], None]) -> None:
        """Make a dispatcher that calls `finished` on the loop with the number of rows that ended."""
        self._finished = finished
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outcomes: deque[tuple[Job, Outcome]] = deque()
        self._called = False
        self._since = self.delay = 0.0
        self._lock = threading.Lock()
        self._running: dict[int, _RunningWork] = {}
        self._given_up: dict[int, LimelightError] = {}

    @property
    def holds_outcomes(self) -> bool:
        """True where an outcome has not been received yet."""
        return bool(self._outcomes)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver outcomes on this loop."""
        self._loop = loop

    def begin(self, model: Model, batch: StepRunner | None, rows: Sequence[Job]) -> None:
        """Note the work of the calling worker: a continuous batch, if any, and the rows that begin."""
        with self._lock:
            self._running[threading.get_ident()] = _RunningWork(model, batch, {job.ticket: job for job in rows})

    def end(self) -> bool:
        """Note that the calling worker is done. Returns True where the worker was given up meanwhile."""
        with self._lock:
            return self._running.pop(threading.get_ident()).is_lost

    def give_up(self, worker: int) -> Model | None:
        """Fail the rows of a worker, and ignore what the worker says of them from now on.

        Args:
            worker: its thread, by `threading.get_ident`.

        Returns:
            The model; None for a worker that runs nothing, or was given up before.
        """
        with self._lock:
            running = self._running.get(worker)
            if running is None or running.is_lost:
                return None
            running.is_lost = True
            jobs = [*running.left.values(), *(running.batch.jobs if running.batch is not None else ())]
            failed = {job.ticket: (job, OverrunError(_LOST)) for job in jobs}
            self._given_up |= {ticket: error for ticket, (_, error) in failed.items()}
        self.dispatch(list(failed.values()))
        return running.model

    def dispatch(self, events: Sequence[RowEvent]) -> None:
        """Make the outcomes of events, on the calling worker, and have the loop deliver them.

        Each row has a failure of its own: one that several calls raise would hold the frames of all of them.
        """
        if not events or self._loop is None:
            return
        outcomes = [(job, _outcome(job, event)) for job, event in events]
        with self._lock:
            if (running := self._running.get(threading.get_ident())) is not None:
                for job, _ in events:
                    running.left.pop(job.ticket, None)
            self._outcomes.extend(outcomes)
        if not self._called:
            self._called, self._since = True, time.monotonic()
            self.call(self._deliver)

    def call(self, function: Callable[[], None]) -> None:
        """Run a function on the loop, unless the loop is closed: then nobody is left to receive anything."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function)

    def _deliver(self) -> None:
        self.delay = moved(self.delay, time.monotonic() - self._since, _NEWEST)
        self._called = False  # before the last look: what comes later calls again
        while self._outcomes:
            job, outcome = self._outcomes.popleft()
            if self._given_up.get(job.ticket, outcome) is not outcome:
                continue
            if not isinstance(outcome, Delivered) or outcome.last:
                self._finished(1)
                job.call.open -= 1
            job.call.receive(job.index, outcome)


def taken_out(jobs: Sequence[Job]) -> list[RowEvent]:
    """Make the events of rows that waited for a model that is run no more."""
    return [(job, InferenceError("the model is taken out: its runs took too long")) for job in jobs]


def _outcome(job: Job, event: Event) -> Outcome:
    """Make the outcome of an event; the call's own functions can fail too."""
    if isinstance(event, LimelightError):
        return event
    try:
        return job.delivered(event)
    except LimelightError as error:
        return error
    except BaseException as error:  # whatever a library throws: panics are no Exception
        logger.error("an answer could not be built", exc_info=error)
        return InferenceError("the answer to this input could not be built")
