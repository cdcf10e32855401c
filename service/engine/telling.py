"""The way from lanes to the event loop: what happens to rows, told once, also of rows whose lane does not come back."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bundle.errors import LimelightError
from service.engine.jobs import Event, Job, News, RowEvent, Told
from service.engine.queue import Work
from service.errors import InferenceError, OverrunError

logger = logging.getLogger(__name__)

_NEWEST = 0.1  # how much the newest delay counts
_ODD, _SHORT = 8.0, 0.01  # one that is so many times longer, and more than so many seconds, counts as one that is not
_LOST = "the model took too long on this input, and could not be ended"


@dataclass(eq=False)
class _Doing:
    """What a lane does. left: rows that began with it and that nothing was told of yet. is_lost: it does not come
    back from a run.
    """

    work: Work
    left: dict[int, Job]
    is_lost: bool = False


class Telling:
    """Takes what happens on lanes, and hands it on in one call of the loop for all that happens until it answers.

    finished: called on the loop for each row of which nothing more comes. delay: seconds that the loop has been taking
    of late to hear of it.
    """

    def __init__(self, finished: Callable[[int], None]) -> None:
        self._finished = finished
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news: deque[tuple[Job, News]] = deque()
        self._called = False
        self._since = self.delay = 0.0
        self._lock = threading.Lock()
        self._doing: dict[int, _Doing] = {}
        self._given_up: dict[int, LimelightError] = {}

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell on this loop."""
        self._loop = loop

    def begin(self, work: Work) -> None:
        """On a lane: note what it does."""
        with self._lock:
            self._doing[threading.get_ident()] = _Doing(work, {job.ticket: job for job in work.rows})

    def end(self) -> bool:
        """On a lane: note that it is done; gives whether it was given up meanwhile."""
        with self._lock:
            return self._doing.pop(threading.get_ident()).is_lost

    def give_up(self, lane: int) -> Work | None:
        """Tell the rows of a lane that they failed, and nothing else of them from now on; gives what it does.

        lane: its thread, by `threading.get_ident`; None comes back for one that does nothing, or was given up before.
        """
        with self._lock:
            doing = self._doing.get(lane)
            if doing is None or doing.is_lost:
                return None
            doing.is_lost = True
            pool = doing.work.pool
            jobs = [*doing.left.values(), *(pool.jobs if pool is not None else ())]
            failed = {job.ticket: (job, OverrunError(_LOST)) for job in jobs}
            self._given_up |= {ticket: error for ticket, (_, error) in failed.items()}
        self.tell(list(failed.values()))
        return doing.work

    def tell(self, happened: Sequence[RowEvent]) -> None:
        """On a lane: make of what happened what its call wants, and have the loop deliver that.

        Each row has a failure of its own: one that several calls raise would hold the frames of all of them.
        """
        if not happened or self._loop is None:
            return
        news = [(job, _news(job, event)) for job, event in happened]
        with self._lock:
            if (doing := self._doing.get(threading.get_ident())) is not None:
                for job, _ in happened:
                    doing.left.pop(job.ticket, None)
            self._news.extend(news)
        if not self._called:
            self._called, self._since = True, time.monotonic()
            self.call(self._deliver)

    def call(self, function: Callable[[], None]) -> None:
        """Have something run on the loop, unless that is closed: then nobody is left to tell."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(function)

    def _deliver(self) -> None:
        took = time.monotonic() - self._since
        self.delay += _NEWEST * (min(took, _ODD * self.delay + _SHORT) - self.delay)
        self._called = False  # before the last look: what comes later calls again
        while self._news:
            job, each = self._news.popleft()
            if self._given_up.get(job.ticket, each) is not each:
                continue
            if not isinstance(each, Told) or each.last:
                self._finished(1)
                job.call.open -= 1
            job.call.receive(job.index, each)


def taken_out(jobs: Sequence[Job]) -> list[RowEvent]:
    """Say of rows that waited for a model that it is run no more."""
    return [(job, InferenceError("the model is taken out: its runs took too long")) for job in jobs]


def _news(job: Job, event: Event) -> News:
    """Make of what happened what the call wants to be told; its own functions can fail too."""
    if isinstance(event, LimelightError):
        return event
    try:
        return job.told(event)
    except LimelightError as error:
        return error
    except BaseException as error:  # whatever a library throws: panics are no Exception
        logger.error("an answer could not be built", exc_info=error)
        return InferenceError("the answer to this input could not be built")
