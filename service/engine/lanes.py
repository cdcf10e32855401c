"""Worker threads over one queue of all models, one lane a thread: how rows get to them, and how they end."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from service.engine.jobs import AdmittedCall, Job
from service.engine.lane_work import Chores, LaneWork
from service.engine.model import Model
from service.engine.observer import Observer, Rejection
from service.engine.pressure import Pressure
from service.engine.queue import RowQueue
from service.engine.shapes import places
from service.engine.telling import Telling
from service.engine.types import Outlook
from service.engine.watch import WATCH
from service.errors import ModelUnavailableError, QueueFullError
from service.threads import background

logger = logging.getLogger(__name__)

_SHORTEST_RETRY, _LONGEST_RETRY = 0.05, 30.0
# An estimate may be so much too low before a call that was admitted comes late: a generation shares its steps with
# those that join it later.
_MARGIN, _MARGIN_OF_GENERATIONS = 1.25, 2.0
# A token of a stream goes out in one turn of the event loop, and the next is begun with in another. What lanes tell
# waits for half of a turn on the average, and streams of many tokens meet the longest turns.
_TURNS = 6.0
# An answer that is expected to take more than this part of the time left for it says that lanes have too much to do.
_PRESSING = 0.25


class Lanes:
    """The lanes and their queue. All methods but `lost` and `errand` are for the event loop that `start` got.

    most_overruns: a model of which so many runs in a row took too long is run no more; 0 for as often as it likes.
    takes_calls: whether the process does, beside its lanes; only then they come first while time presses.
    """

    def __init__(
        self, lanes: int, queue_rows: int, observer: Observer, *, most_overruns: int = 0, takes_calls: bool = True
    ) -> None:
        self._observer = observer
        self._queue_rows = queue_rows
        self._queue = RowQueue(lanes)
        self._changed = threading.Condition()
        self._admitting = False
        self._unfinished = 0
        self._telling = Telling(self._finish)
        self._work = LaneWork(self._queue, self._changed, self._telling, observer, most_overruns=most_overruns)
        self._idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking = False
        self._count = lanes
        self._threads = [self._thread(f"lane-{number}") for number in range(lanes)]
        self._pressure = Pressure(self._threads) if takes_calls else None

    def on_stuck(self, take_out: Callable[[Model], None]) -> None:
        """Have something told, once and on the loop, of each model that is run no more."""
        self._work.on_stuck = take_out

    def lend(self, chores: Chores) -> None:
        """Have lanes do something else between batches."""
        with self._changed:
            self._work.chores = chores

    def errand(self, function: Callable[[], None]) -> None:
        """Have a lane do something; as `LaneWork` has it."""
        self._work.errand(function)

    def wake(self) -> None:
        """Have a lane look at the chores."""
        with self._changed:
            self._changed.notify()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the threads; what happens is told on this loop."""
        self._loop = loop
        self._telling.start(loop)
        self._admitting = True
        self._idle.set()
        for thread in self._threads:
            thread.start()
        WATCH.tell(self)

    def lost(self, thread: int) -> None:
        """Put another lane in the place of one that does not come back; told of by the watch, on a thread of that.

        Its rows get an error, and the model is run no more.
        """
        if self._work.ended or (work := self._telling.give_up(thread)) is None:
            return
        logger.critical("a run of %s cannot be ended: another lane takes the place of its own", work.model.name)
        self._work.take_out(work.model)
        replacing = self._thread(f"lane-after-{thread}")
        self._threads.append(replacing)
        replacing.start()

    def check(
        self, model: Model, rows: int, ahead: int, deadline: float | None, before: float, *, streams: bool
    ) -> None:
        """Refuse rows that could not be answered before their deadline, by what the model's rows have been costing.

        ahead: rows that will be queued before them. before: seconds until they can be queued. streams: their tokens are
        sent as they come.
        Raises: QueueFullError.
        """
        with self._changed:
            expected = self._queue.expected_seconds(model, ahead + rows, None, self._token_seconds(streams))
        if deadline is not None and self._is_late(model, expected + before, deadline):
            raise self._late(model, expected + before, deadline, rows)

    def outlook(self, model: Model, ahead: int, before: float, *, streams: bool) -> Outlook:
        """Expect what a call of one row would find now. Arguments: as `check` has them."""
        with self._changed:
            expected = self._queue.expected_seconds(model, ahead + 1, None, self._token_seconds(streams))
            ahead += self._queue.rows_of(model)
        return Outlook((expected + before) * _margin(model), ahead, beside=model.pool is not None)

    @contextlib.contextmanager
    def unfinished(self) -> Iterator[None]:
        """Have something more to wait for when stopping: a call that goes on queueing rows after its first.

        Raises: ModelUnavailableError.
        """
        self._check_admitting(1)
        self._unfinished += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._finish(1)

    def go_on(self, model: Model, jobs: Sequence[Job]) -> None:
        """Queue further rows of a call that was admitted: neither a full queue nor a stop is a reason to break it off.

        Raises: ModelUnavailableError where the lanes have ended.
        """
        if self._work.ended:
            raise ModelUnavailableError("the server stopped before the answer was there")
        with self._changed:
            self._queue.add(model, jobs)
            self._changed.notify(len(jobs))
        self._count_in(model, jobs)

    def submit(self, model: Model, jobs: Sequence[Job]) -> None:
        """Queue rows, all of them or none.

        Raises: QueueFullError where they do not fit, or could not be answered before their deadline;
        ModelUnavailableError.
        """
        self._check_admitting(len(jobs))
        deadline = jobs[0].call.query.deadline
        lanes, waiting, expected, late = self._count, -1, 0.0, False
        with self._changed:
            if self._queue.rows + len(jobs) > self._queue_rows:
                waiting, seconds = self._queue.rows, self._queue.waiting_seconds() / lanes
            else:
                if deadline is not None:
                    own = sum(places(job.shape) for job in jobs)
                    streams = jobs[0].call.tell is not None
                    expected = self._queue.expected_seconds(model, len(jobs), own, self._token_seconds(streams))
                    late = self._is_late(model, expected, deadline)  # once: a moment later it may be another answer
                if not late:
                    self._queue.add(model, jobs)
                    self._changed.notify(len(jobs))
        if waiting >= 0:
            self._observer.rejected(Rejection.QUEUE_FULL, len(jobs))
            raise QueueFullError(
                f"{waiting} instances are waiting already, of at most {self._queue_rows}", retry_after=_retry(seconds)
            )
        if late and deadline is not None:
            raise self._late(model, expected, deadline, len(jobs))
        self._count_in(model, jobs)

    def withdraw(self, model: Model, jobs: Sequence[Job]) -> None:
        """Take out rows of an abandoned call that still wait; those that run end at their next step."""
        with self._changed:
            removed = self._queue.remove(model, jobs)
            self._changed.notify()  # a pool may have waited for this call
        if removed:
            self._observer.queued(model.name, -removed)
            self._observer.rejected(Rejection.CANCELLED, removed)
            self._finish(removed)

    def sent(self, call: AdmittedCall) -> None:
        """Take account of a token that has gone out. A step may be due now, which is looked at once a turn."""
        call.sent += 1
        if not self._looking and self._loop is not None:
            self._looking = True
            self._loop.call_soon(self._look)

    def forget(self, model: Model) -> bool:
        """Let go of a model, unless rows of it wait or run; gives whether nothing of it is left."""
        with self._changed:
            chunks = model.chunks is None or self._queue.forget(model.chunks)
            return self._queue.forget(model) and chunks

    async def stop(self, grace: float) -> None:
        """Admit no more, wait until all is done or `grace` seconds are over, and end the threads."""
        self._admitting = False
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace)
        if self._pressure is not None:
            self._pressure.close()
        self._work.end()
        for thread in self._threads:
            await asyncio.to_thread(thread.join, 1.0)

    def _thread(self, name: str) -> threading.Thread:
        # A daemon: a batch cannot be interrupted, and must not keep a process alive that has used up its grace.
        return background(self._work.run, name)

    def _check_admitting(self, rows: int) -> None:
        if not self._admitting:
            self._observer.rejected(Rejection.STOPPING, rows)
            raise ModelUnavailableError("the server is stopping")

    def _count_in(self, model: Model, jobs: Sequence[Job]) -> None:
        self._unfinished += len(jobs)
        self._idle.clear()
        self._observer.queued(model.name, len(jobs))

    def _is_late(self, model: Model, expected: float, deadline: float) -> bool:
        """Tell whether an answer would be late; where it takes much of the time that is left, time presses."""
        if expected <= 0:
            return False
        needed, left = expected * _margin(model), deadline - time.monotonic()
        if needed > _PRESSING * left and self._pressure is not None:
            self._pressure.press()
        return needed > left

    def _late(self, model: Model, expected: float, deadline: float, rows: int) -> QueueFullError:
        left = max(0.0, deadline - time.monotonic())
        self._observer.rejected(Rejection.OVERLOAD, rows)
        return QueueFullError(
            f"so much is waiting that an answer would take about {expected:.2g} s, and the deadline is in {left:.2g} s",
            retry_after=_retry(expected * _margin(model) - left),
        )

    def _token_seconds(self, streams: bool) -> float:
        """What the event loop takes to send one token after another of a stream, at least; 0 where none are sent."""
        return _TURNS * self._telling.delay if streams else 0.0

    def _look(self) -> None:
        self._looking = False
        with self._changed:
            if self._queue.is_ready(time.monotonic()):
                self._changed.notify()

    def _finish(self, rows: int) -> None:
        self._unfinished -= rows
        if not self._unfinished:
            self._idle.set()


def _margin(model: Model) -> float:
    return _MARGIN if model.pool is None else _MARGIN_OF_GENERATIONS


def _retry(seconds: float) -> float:
    return min(max(seconds, _SHORTEST_RETRY), _LONGEST_RETRY)
