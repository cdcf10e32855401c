"""What lanes do: they take batches and steps from the queue of all models, run them, and tell what became of rows.

A lane takes its next work itself the moment it is idle: no trip over the event loop lies between two batches. What
happens to rows goes back to the loop in one call a batch (or a step of a generation). Between two batches it does what
else is to be done, where it is lent for that.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Protocol
from weakref import WeakSet

from service.engine.exhausted import is_exhausted
from service.engine.jobs import Job, RowEvent, failure
from service.engine.model import Model
from service.engine.observer import Observer, Rejection, Stage
from service.engine.queue import RowQueue, Work
from service.engine.telling import Telling, taken_out
from service.engine.together import CutError
from service.engine.types import Answer
from service.errors import DeadlineError, ModelUnavailableError, OverrunError

logger = logging.getLogger(__name__)

# Where no lane computes, or many rows wait, rows and chores have equal shares of the time; neither makes up for more
# seconds than these.
_AHEAD = 0.1
_MANY = 8  # rows that wait for each lane: batches grow little beyond, and what is prepared for later may be late then


class Chores(Protocol):
    """What lanes do beside rows. Asked under the lanes' lock."""

    def is_ready(self) -> bool:
        """Tell whether there is something to do now."""

    def take(self) -> Callable[[], None] | None:
        """Give something to do, which raises nothing; None where there is nothing."""


class _Errand:
    """Something that is done once, for somebody who waits for it."""

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


class LaneWork:
    """The work of all lanes; each is a thread in `run`. changed: held to look at the queue, notified of what it has.

    most_overruns: a model of which so many runs in a row took too long is run no more; 0 for as often as it likes.
    on_stuck: told of that, once, on the loop. ended: nothing more begins. chores: what lanes do beside rows.
    """

    def __init__(
        self,
        queue: RowQueue,
        changed: threading.Condition,
        telling: Telling,
        observer: Observer,
        *,
        most_overruns: int = 0,
    ) -> None:
        self._queue = queue
        self._changed = changed
        self._telling = telling
        self._observer = observer
        self._most_overruns = most_overruns
        self._stuck: WeakSet[Model] = WeakSet()
        self._owed = 0.0  # seconds that chores are behind rows
        self._errands: deque[_Errand] = deque()
        self.chores: Chores | None = None
        self.ended = False
        self.on_stuck: Callable[[Model], None] = lambda model: None

    def end(self) -> None:
        """Begin nothing more: every thread leaves `run` as soon as it can."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()
            while self._errands:
                self._errands.popleft().done.set_exception(_ended())

    def errand(self, function: Callable[[], None]) -> None:
        """Have a lane do something, in turns with rows as chores are, and wait until it is done.

        For any thread but a lane or the event loop. Raises: what the function raises; ModelUnavailableError where the
        lanes end before it begins.
        """
        errand = _Errand(function)
        with self._changed:
            if self.ended:
                raise _ended()
            self._errands.append(errand)
            self._changed.notify()
        errand.done.result()

    def take_out(self, model: Model) -> None:
        """Run nothing of a model any more."""
        if model not in self._stuck:
            self._stuck.add(model)
            self._telling.call(lambda: self.on_stuck(model))

    def run(self) -> None:
        """Do what there is to do until the end, or until another has taken this thread's place."""
        while (work := self._next()) is not None:
            self._telling.begin(work)
            try:
                if work.pool is None:
                    self._run_batch(work)
                else:
                    self._turn(work)
            except BaseException:  # whatever a library throws: the lane goes on
                logger.critical("a lane failed on %s", work.model.name, exc_info=True)
            del work  # a lane that waits keeps no model
            if self._telling.end():  # another has taken its place
                return

    def _run_batch(self, work: Work) -> None:
        before = time.monotonic()
        try:
            self._batch(work.model, work.rows, wide=work.wide)
        finally:
            self._finished(work, time.monotonic() - before)

    def _turn(self, work: Work) -> None:
        """Let rows join a pool, and its rows take a step."""
        assert work.pool is not None
        before = between = time.monotonic()
        happened: list[RowEvent] = []
        rows = 0
        try:
            if work.model in self._stuck:
                happened = taken_out(work.rows)
            elif work.rows:
                happened = work.pool.join(work.rows, work.wide)
                between = time.monotonic()
            rows = work.pool.rows
            if rows:
                happened += work.pool.step(work.wide)
            self._telling.tell(happened)  # before another lane has the pool: a row's tokens are told in order
        finally:
            after = time.monotonic()
            self._finished(work, between - before, rows, after - between, happened)

    def _finished(
        self, work: Work, joining: float, rows: int = 0, stepping: float = 0.0, happened: Sequence[RowEvent] = ()
    ) -> None:
        ended = [_steps(event) for _, event in happened if isinstance(event, Answer)]
        cut = [event.steps for _, event in happened if isinstance(event, CutError)]
        with self._changed:
            self._queue.finished(work, joining, rows, stepping, ended, cut)
            self._owed = min(_AHEAD, self._owed + joining + stepping)
        if 0 < self._most_overruns <= work.model.overruns:
            self.take_out(work.model)

    def _next(self) -> Work | None:
        """Wait for work, and do chores meanwhile; None when the lanes end."""
        while True:
            with self._changed:
                if self.ended:
                    return None
                now = time.monotonic()
                work, dropped = None, list[tuple[Model, Job]]()
                chore = self._chore() if self._is_chores_turn() else None
                if chore is None:
                    work, dropped = self._queue.take(now)
                    if work is None and not dropped:
                        chore = self._chore()
                if (work or chore) and (self._queue.is_ready(now) or self._has_chores()):
                    self._changed.notify()
                if work is None and chore is None and not dropped:
                    due = self._queue.due
                    self._changed.wait(None if due is None else max(0.0, due - time.monotonic()))
                    continue
            if chore is not None:
                self._do(chore)
                del chore  # a lane that waits keeps nothing of a call
                continue
            self._drop(dropped)
            del dropped  # nor a row, or its model
            if work is not None:
                self._observe(work)
                return work

    def _is_chores_turn(self) -> bool:
        """Tell if chores come before rows: what they make joins the next batch, as long as rows have their share."""
        return (self._queue.running > 0 and not self._queue.holds(_MANY)) or self._owed > 0

    def _has_chores(self) -> bool:
        return bool(self._errands) or (self.chores is not None and self.chores.is_ready())

    def _chore(self) -> Callable[[], None] | None:
        if self._errands:
            return self._errands.popleft()
        return None if self.chores is None else self.chores.take()

    def _do(self, chore: Callable[[], None]) -> None:
        before = time.monotonic()
        chore()
        with self._changed:
            if self._queue.rows:  # those that nobody waited for cost nothing
                self._owed = max(-_AHEAD, self._owed - (time.monotonic() - before))

    def _drop(self, dropped: Sequence[tuple[Model, Job]]) -> None:
        """Tell of rows that need no answer any more."""
        for model, job in dropped:
            self._observer.queued(model.name, -1)
            self._observer.rejected(Rejection.CANCELLED if job.abandoned else Rejection.DEADLINE, 1)
        self._telling.tell([(job, DeadlineError("the deadline passed before a lane was free")) for _, job in dropped])

    def _observe(self, work: Work) -> None:
        if work.batch is None:
            return
        name, batch, now = work.model.name, work.batch, time.monotonic_ns()
        self._observer.queued(name, -len(batch.rows))
        if work.model.chunks is not None:  # a chunk is no batch of tokens
            self._observer.batch(name, len(batch.rows), batch.real_tokens, batch.padding_tokens)
        for job in batch.rows:
            self._observer.stage(name, Stage.QUEUE, (now - job.admitted) / 1e9)

    def _batch(self, model: Model, jobs: Sequence[Job], *, wide: bool) -> None:
        """Run a batch. Where it fails, each half of it runs again: one bad row fails no other, and what was too much
        memory together may not be too much apart. Where it took too long, all of it has failed: each half might take as
        long again.
        """
        left = {job.ticket: job for job in jobs}
        if model in self._stuck:
            return self._telling.tell(taken_out(jobs))
        try:
            for happened in model.runner.run(jobs, wide):
                for job, _ in happened:
                    del left[job.ticket]
                self._telling.tell(happened)
        except BaseException as error:  # whatever a library throws: panics are no Exception
            if is_exhausted(error):
                with self._changed:
                    self._queue.exhausted(model, jobs)
            if len(jobs) == 1 or isinstance(error, OverrunError):
                return self._telling.tell([(job, failure(error)) for job in left.values()])
            rows, middle = list(left.values()), len(left) // 2
            self._batch(model, rows[:middle], wide=wide)
            self._batch(model, rows[middle:], wide=wide)


def _ended() -> ModelUnavailableError:
    return ModelUnavailableError("the server is stopping")


def _steps(answer: Answer) -> int:
    return max((len(each.token_ids) for each in answer.sequences), default=0)
