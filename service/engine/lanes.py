"""Worker threads that run batches, one lane a thread, over one queue of all models.

A lane takes its next batch itself the moment it is idle: no trip over the event loop lies between two batches. What
happens to rows goes back to the loop in one call a batch (or a step of a generation).
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Sequence

from bundle.errors import LimelightError
from service.engine.jobs import Event, Job, News, RowEvent, Told
from service.engine.model import Model
from service.engine.observer import Observer, Rejection, Stage
from service.engine.queue import RowQueue, Started
from service.engine.types import Step
from service.errors import DeadlineError, InferenceError, ModelUnavailableError, QueueFullError

logger = logging.getLogger(__name__)

_SHORTEST_RETRY, _LONGEST_RETRY = 0.05, 30.0


class Lanes:
    """The lanes and their queue. All methods but the lanes' own are for the event loop that `start` got."""

    def __init__(self, lanes: int, queue_rows: int, observer: Observer) -> None:
        self._observer = observer
        self._queue_rows = queue_rows
        self._queue = RowQueue()
        self._changed = threading.Condition()
        self._admitting = False
        self._ending = False
        self._unfinished = 0
        self._idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Daemons: a batch cannot be interrupted, and must not keep a process alive that has used up its grace.
        self._threads = [
            threading.Thread(target=self._work, name=f"lane-{number}", daemon=True) for number in range(lanes)
        ]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the threads; what happens is told on this loop."""
        self._loop = loop
        self._admitting = True
        self._idle.set()
        for thread in self._threads:
            thread.start()

    def submit(self, model: Model, jobs: Sequence[Job]) -> None:
        """Queue rows, all of them or none.

        Raises: QueueFullError, ModelUnavailableError.
        """
        if not self._admitting:
            self._observer.rejected(Rejection.STOPPING, len(jobs))
            raise ModelUnavailableError("the server is stopping")
        with self._changed:
            if self._queue.rows + len(jobs) > self._queue_rows:
                waiting, seconds = self._queue.rows, self._queue.expected_seconds() / len(self._threads)
            else:
                waiting = -1
                self._queue.add(model, jobs)
                self._changed.notify(len(jobs))
        if waiting >= 0:
            self._observer.rejected(Rejection.QUEUE_FULL, len(jobs))
            raise QueueFullError(
                f"{waiting} instances are waiting already, of at most {self._queue_rows}",
                retry_after=min(max(seconds, _SHORTEST_RETRY), _LONGEST_RETRY),
            )
        self._unfinished += len(jobs)
        self._idle.clear()
        self._observer.queued(model.name, len(jobs))

    def withdraw(self, model: Model, jobs: Sequence[Job]) -> None:
        """Take out rows of an abandoned call that still wait; those that run end at their next step."""
        with self._changed:
            removed = self._queue.remove(model, jobs)
        if removed:
            self._observer.queued(model.name, -removed)
            self._observer.rejected(Rejection.CANCELLED, removed)
            self._finish(removed)

    async def stop(self, grace: float) -> None:
        """Admit no more, wait until all is done or `grace` seconds are over, and end the threads."""
        self._admitting = False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace)
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        for thread in self._threads:
            await asyncio.to_thread(thread.join, 1.0)

    def _finish(self, rows: int) -> None:
        self._unfinished -= rows
        if not self._unfinished:
            self._idle.set()

    def _deliver(self, news: Sequence[tuple[Job, News]]) -> None:
        """On the loop: hand on what happened."""
        for job, each in news:
            if not isinstance(each, Told) or each.last:
                self._finish(1)
            job.call.receive(job.index, each)

    def _tell(self, happened: Sequence[RowEvent]) -> None:
        """On a lane: make of what happened what its call wants, and have the loop deliver that."""
        if happened and self._loop is not None:
            news = [(job, _news(job, event)) for job, event in happened]
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                self._loop.call_soon_threadsafe(self._deliver, news)

    def _work(self) -> None:
        while (started := self._next()) is not None:
            before = time.monotonic()
            try:
                self._run(started.model, started.batch.rows, wide=started.wide)
            finally:
                with self._changed:
                    self._queue.finished(started, time.monotonic() - before)
                    if self._queue.rows:
                        self._changed.notify()

    def _next(self) -> Started | None:
        """Wait for a batch; None when the lanes end."""
        while True:
            with self._changed:
                if self._ending:
                    return None
                started, dropped = self._queue.take(time.monotonic())
                if started is None and not dropped:
                    self._changed.wait()
                    continue
            for model, job in dropped:
                self._observer.queued(model.name, -1)
                self._observer.rejected(Rejection.CANCELLED if job.abandoned else Rejection.DEADLINE, 1)
            self._tell([(job, DeadlineError("the deadline passed before a lane was free")) for _, job in dropped])
            if started is not None:
                self._observe(started)
                return started

    def _observe(self, started: Started) -> None:
        name, batch, now = started.model.name, started.batch, time.monotonic_ns()
        self._observer.queued(name, -len(batch.rows))
        self._observer.batch(name, len(batch.rows), batch.real_tokens, batch.padding_tokens)
        for job in batch.rows:
            self._observer.stage(name, Stage.QUEUE, (now - job.admitted) / 1e9)

    def _run(self, model: Model, jobs: Sequence[Job], *, wide: bool) -> None:
        """Run a batch. Where it fails, its rows run one by one, so that one bad row fails no other."""
        untouched = {job.ticket: job for job in jobs}
        left = dict(untouched)
        try:
            for happened in model.runner.run(jobs, wide):
                for job, event in happened:
                    untouched.pop(job.ticket, None)
                    if not isinstance(event, Step):
                        del left[job.ticket]
                self._tell(happened)
        except Exception as error:
            again = untouched if len(jobs) > 1 else {}
            failed = [(job, _failure(error)) for ticket, job in left.items() if ticket not in again]
            self._tell(failed)
            for job in again.values():
                self._run(model, [job], wide=wide)


def _news(job: Job, event: Event) -> News:
    """Make of what happened what the call wants to be told; its own functions can fail too."""
    if isinstance(event, LimelightError):
        return event
    try:
        return job.told(event)
    except LimelightError as error:
        return error
    except Exception as error:
        logger.error("an answer could not be built", exc_info=error)
        return InferenceError("the answer to this input could not be built")


def _failure(error: Exception) -> Event:
    """Give what the caller is told: never what the runtime or NumPy said."""
    if isinstance(error, InferenceError):
        return error
    logger.error("a batch failed", exc_info=error)
    return InferenceError("the model failed on this input")
