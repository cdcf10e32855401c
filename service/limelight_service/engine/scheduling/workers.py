"""Worker threads that run batches and decode steps of all models from one scheduler.

A worker takes its next work itself the moment it is free: no trip over the event loop lies between two batches. The
outcomes of rows go back to the loop in one call for a batch (or a decode step). Between two batches a worker runs
one-shot tasks, in turns with them.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from weakref import WeakSet

from limelight_service.engine.jobs import AdmittedCall, CutError, Job, RowEvent, failure
from limelight_service.engine.model import Model
from limelight_service.engine.out_of_memory import is_out_of_memory
from limelight_service.engine.scheduling.dispatch import EventDispatcher, taken_out
from limelight_service.engine.scheduling.queue import Scheduler, Work
from limelight_service.engine.types import Answer, WaitEstimate
from limelight_service.engine.watch import WATCH
from limelight_service.errors import DeadlineError, ModelUnavailableError, OverrunError, QueueFullError
from limelight_service.observability.observer import Observer, Rejection, Stage, WorkDone
from limelight_service.platform.threads import background

logger = logging.getLogger(__name__)

_SHORTEST_RETRY, _LONGEST_RETRY = 0.05, 30.0
# An estimate may be so much too low before a call that was admitted comes late: a generation shares its steps with
# those that join it later.
_MARGIN, _MARGIN_OF_GENERATIONS = 1.25, 2.0
# A token of a stream goes out in one turn of the event loop, and the next is begun with in another. An outcome waits
# for half of a turn on the average, and streams of many tokens meet the longest turns.
_TURNS = 6.0


@dataclass(frozen=True)
class Activity:
    """The state of the workers at one moment.

    Attributes:
        waiting: rows that wait.
        running: batches and decode steps that workers have taken.
        is_ready: a free worker could start something now.
        holds_outcomes: an outcome has not been received yet.
        unended: rows, and streams of chunks, that were admitted and have not ended.
    """

    waiting: int
    running: int
    is_ready: bool
    holds_outcomes: bool
    unended: int


class _OneShotTask:
    """A function that a worker runs once, for a thread that waits for it."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self.done: Future[None] = Future()

    def __call__(self) -> None:
        try:
            self._function()
        except BaseException as error:  # whatever a library throws
            self.done.set_exception(error)
        else:
            self.done.set_result(None)


class WorkerPool:
    """The workers of a device and their scheduler.

    All public methods but `lost` and `run_task` are for the event loop that `start` got. A condition guards the
    scheduler; workers wait on it for work.
    """

    def __init__(self, workers: int, queue_rows: int, observer: Observer, *, most_overruns: int = 0) -> None:
        """Make the threads, which `start` starts.

        Args:
            workers: number of threads.
            queue_rows: most rows that wait.
            most_overruns: overlong runs in a row after which a model is run no more; 0 for no limit.
        """
        self._observer = observer
        self._queue_rows = queue_rows
        self._most_overruns = most_overruns
        self._scheduler = Scheduler(workers)
        self._changed = threading.Condition()
        self._dispatcher = EventDispatcher(self._finish)
        self._stuck: WeakSet[Model] = WeakSet()
        self._on_stuck: Callable[[Model], None] = lambda model: None
        self._tasks: deque[_OneShotTask] = deque()
        self._tasks_turn = True
        self._admitting = self._ended = self._looking = False
        self._unfinished = 0
        self._idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._count = workers
        self._threads = [self._thread(f"worker-{number}") for number in range(workers)]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the threads; outcomes are received on this loop."""
        self._loop = loop
        self._dispatcher.start(loop)
        self._admitting = True
        self._idle.set()
        for thread in self._threads:
            thread.start()
        WATCH.add_listener(self)

    async def stop(self, grace: float) -> None:
        """Admit no more, wait until all is done or `grace` seconds are over, and end the threads."""
        self._admitting = False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace)
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            while self._tasks:
                self._tasks.popleft().done.set_exception(_stopping())
        for thread in self._threads:
            await asyncio.to_thread(thread.join, 1.0)

    def on_stuck(self, take_out: Callable[[Model], None]) -> None:
        """Set a function that is called, once and on the loop, for each model that is run no more."""
        self._on_stuck = take_out

    def activity(self) -> Activity:
        """Give the state of the workers now."""
        with self._changed:
            scheduler, holds = self._scheduler, self._dispatcher.holds_outcomes
            ready = scheduler.is_ready(time.monotonic())
            return Activity(scheduler.rows, scheduler.running, ready, holds, self._unfinished)

    def wait(self, model: Model) -> WaitEstimate:
        """Estimate the wait of a row that arrives now, with a margin, and the seconds that each further row adds."""
        generates = model.continuous_batch is not None
        token_seconds = _TURNS * self._dispatcher.delay if generates else 0.0
        with self._changed:
            one, two = (self._scheduler.expected_seconds(model, rows, token_seconds) for rows in (1, 2))
        margin = _MARGIN_OF_GENERATIONS if generates else _MARGIN
        return WaitEstimate(margin * one, margin * max(0.0, two - one))

    def work(self) -> WorkDone:
        """Tell what the workers have done and have to do; for any thread."""
        with self._changed:
            scheduler = self._scheduler
            busy = scheduler.busy_seconds(time.monotonic())
            return WorkDone(self._count, busy, scheduler.unfilled, scheduler.waiting_seconds())

    def waiting(self) -> dict[str, int]:
        """Count the rows that wait, by the name of their model."""
        with self._changed:
            return self._scheduler.waiting()

    def busy(self) -> list[Model]:
        """Give the models of which rows wait or run."""
        with self._changed:
            return self._scheduler.busy

    def submit(self, model: Model, jobs: Sequence[Job]) -> None:
        """Queue rows, all of them or none.

        Raises:
            QueueFullError: the rows do not fit.
            ModelUnavailableError: the workers are stopping.
        """
        self._check_admitting(len(jobs))
        with self._changed:
            waiting = self._scheduler.rows
            fits = waiting + len(jobs) <= self._queue_rows
            if fits:
                self._scheduler.add(model, jobs)
                self._changed.notify(len(jobs))
            else:
                seconds = self._scheduler.waiting_seconds() / self._count
        if not fits:
            self._observer.rejected(Rejection.QUEUE_FULL, len(jobs))
            raise QueueFullError(
                f"{waiting} instances are waiting already, of at most {self._queue_rows}", retry_after=_retry(seconds)
            )
        self._count_in(model, jobs)

    def go_on(self, model: Model, jobs: Sequence[Job]) -> None:
        """Queue further rows of an admitted call: neither a full queue nor a stop breaks the call off.

        Raises:
            ModelUnavailableError: the workers have ended.
        """
        if self._ended:
            raise ModelUnavailableError("the server stopped before the answer was there")
        with self._changed:
            self._scheduler.add(model, jobs)
            self._changed.notify(len(jobs))
        self._count_in(model, jobs)

    @contextlib.contextmanager
    def unfinished(self) -> Iterator[None]:
        """Have `stop` wait for a call that queues further rows after its first.

        Raises:
            ModelUnavailableError: the workers are stopping.
        """
        self._check_admitting(1)
        self._unfinished += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._finish(1)

    def withdraw(self, model: Model, jobs: Sequence[Job]) -> None:
        """Take out rows of an abandoned call that still wait; rows that generate end at their next step."""
        with self._changed:
            removed = self._scheduler.remove(model, jobs)
            self._changed.notify()  # a continuous batch may have waited for this call
        if removed:
            self._observer.rejected(Rejection.CANCELLED, removed)
            self._finish(removed)

    def sent(self, call: AdmittedCall) -> None:
        """Count a token that was sent. A step may be due now; workers are woken for it once a turn of the loop."""
        call.sent += 1
        if not self._looking and self._loop is not None:
            self._looking = True
            self._loop.call_soon(self._look)

    def forget(self, model: Model) -> bool:
        """Forget a model, unless rows of it wait or run. Returns True where nothing of the model is left."""
        with self._changed:
            chunks = model.chunks is None or self._scheduler.forget(model.chunks)
            return self._scheduler.forget(model) and chunks

    def run_task(self, function: Callable[[], None]) -> None:
        """Run a one-shot task on a worker, in turns with batches, and wait until the task is done.

        For any thread but a worker or the event loop.

        Raises:
            ModelUnavailableError: the workers end before the task begins.
            Exception: what the function raises.
        """
        task = _OneShotTask(function)
        with self._changed:
            if self._ended:
                raise _stopping()
            self._tasks.append(task)
            self._changed.notify()
        task.done.result()

    def lost(self, thread: int) -> None:
        """Replace a worker whose run cannot be ended; on the thread of the watch.

        The rows of the run get an error, and the model is run no more.
        """
        if self._ended or (model := self._dispatcher.give_up(thread)) is None:
            return
        logger.critical("a run of %s cannot be ended: another worker replaces its own", model.name)
        self._take_out(model)
        replacement = self._thread(f"worker-after-{thread}")
        self._threads.append(replacement)
        replacement.start()

    def _check_admitting(self, rows: int) -> None:
        if not self._admitting:
            self._observer.rejected(Rejection.STOPPING, rows)
            raise _stopping()

    def _count_in(self, model: Model, jobs: Sequence[Job]) -> None:
        self._unfinished += len(jobs)
        self._idle.clear()

    def _finish(self, rows: int) -> None:
        self._unfinished -= rows
        if not self._unfinished:
            self._idle.set()

    def _look(self) -> None:
        self._looking = False
        with self._changed:
            if self._scheduler.is_ready(time.monotonic()):
                self._changed.notify()

    def _thread(self, name: str) -> threading.Thread:
        # A daemon: a batch cannot be interrupted, and must not keep a process alive that has used up its grace.
        return background(self._work, name)

    # From here on, everything runs on workers.

    def _work(self) -> None:
        """Run batches, steps and tasks until the end, or until another worker has taken this thread's place."""
        while (work := self._next()) is not None:
            self._dispatcher.begin(work.model, work.continuous_batch, work.rows)
            try:
                if work.continuous_batch is None:
                    self._run_batch(work)
                else:
                    self._run_step(work)
            except BaseException:  # whatever a library throws: the worker goes on
                logger.critical("a worker failed on %s", work.model.name, exc_info=True)
            del work  # a worker that waits keeps no model
            if self._dispatcher.end():  # another has taken its place
                return

    def _next(self) -> Work | None:
        """Wait for work, and run one-shot tasks meanwhile; None when the workers end."""
        while True:
            with self._changed:
                if self._ended:
                    return None
                now = time.monotonic()
                work, dropped = None, list[tuple[Model, Job]]()
                if not (self._tasks and self._tasks_turn):
                    work, dropped = self._scheduler.take(now)
                task = self._tasks.popleft() if self._tasks and work is None and not dropped else None
                if work or task:
                    self._tasks_turn = task is None
                    if self._scheduler.is_ready(now) or self._tasks:
                        self._changed.notify()
                elif not dropped:
                    due = self._scheduler.due
                    self._changed.wait(None if due is None else max(0.0, due - time.monotonic()))
                    continue
            if task is not None:
                task()
                del task  # a worker that waits keeps nothing of it
                continue
            self._drop(dropped)
            del dropped  # nor a row, or its model
            if work is not None:
                self._observe(work)
                return work

    def _drop(self, dropped: Sequence[tuple[Model, Job]]) -> None:
        """Tell callers of rows that need no answer any more."""
        for _, job in dropped:
            self._observer.rejected(Rejection.CANCELLED if job.abandoned else Rejection.DEADLINE, 1)
        self._dispatcher.dispatch(
            [(job, DeadlineError("the deadline passed before a worker was free")) for _, job in dropped]
        )

    def _observe(self, work: Work) -> None:
        if work.batch is None:
            return
        name, batch, now = work.model.name, work.batch, time.monotonic_ns()
        if work.model.chunks is not None:  # a chunk is no batch of tokens
            self._observer.batch(name, len(batch.rows), batch.real_tokens, batch.padding_tokens)
        for job in batch.rows:
            self._observer.stage(name, Stage.QUEUE, (now - job.admitted) / 1e9)

    def _run_batch(self, work: Work) -> None:
        before = time.monotonic()
        try:
            self._batch(work.model, work.rows, wide=work.wide)
        finally:
            self._finished(work, time.monotonic() - before)

    def _batch(self, model: Model, jobs: Sequence[Job], *, wide: bool) -> None:
        """Run a batch. Where the batch fails, each half of it runs again.

        So one bad row fails no other, and what was too much memory together may not be too much apart. Where the run
        took too long, all rows have failed: each half might take as long again.
        """
        left = {job.ticket: job for job in jobs}
        if model in self._stuck:
            return self._dispatcher.dispatch(taken_out(jobs))
        try:
            for events in model.runner.run(jobs, wide):
                for job, _ in events:
                    del left[job.ticket]
                self._dispatcher.dispatch(events)
        except BaseException as error:  # whatever a library throws: panics are no Exception
            if is_out_of_memory(error):
                with self._changed:
                    self._scheduler.out_of_memory(model, jobs)
            if len(jobs) == 1 or isinstance(error, OverrunError):
                return self._dispatcher.dispatch([(job, failure(error)) for job in left.values()])
            rows, middle = list(left.values()), len(left) // 2
            self._batch(model, rows[:middle], wide=wide)
            self._batch(model, rows[middle:], wide=wide)

    def _run_step(self, work: Work) -> None:
        """Let rows join a continuous batch, and run a decode step of it."""
        assert work.continuous_batch is not None
        before = between = time.monotonic()
        events: list[RowEvent] = []
        rows = 0
        try:
            if work.model in self._stuck:
                events = taken_out(work.rows)
            elif work.rows:
                events = work.continuous_batch.join(work.rows, work.wide)
                between = time.monotonic()
            rows = work.continuous_batch.rows
            if rows:
                events += work.continuous_batch.step(work.wide)
            self._dispatcher.dispatch(events)  # before another worker has the batch: tokens of a row stay in order
        finally:
            after = time.monotonic()
            self._finished(work, between - before, rows, after - between, events)

    def _finished(
        self, work: Work, joining: float, rows: int = 0, stepping: float = 0.0, events: Sequence[RowEvent] = ()
    ) -> None:
        ended = [_steps(event) for _, event in events if isinstance(event, Answer)]
        cut = [event.steps for _, event in events if isinstance(event, CutError)]
        with self._changed:
            self._scheduler.finished(work, joining, rows, stepping, ended, cut)
        if 0 < self._most_overruns <= work.model.overruns:
            self._take_out(work.model)

    def _take_out(self, model: Model) -> None:
        """Run nothing of a model any more."""
        if model not in self._stuck:
            self._stuck.add(model)
            self._dispatcher.call(lambda: self._on_stuck(model))


def _retry(seconds: float) -> float:
    return min(max(seconds, _SHORTEST_RETRY), _LONGEST_RETRY)


def _stopping() -> ModelUnavailableError:
    return ModelUnavailableError("the server is stopping")


def _steps(answer: Answer) -> int:
    return max((len(each.token_ids) for each in answer.sequences), default=0)
