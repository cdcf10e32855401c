"""Preprocesses instances on threads: one instance at a time, fairly between calls, and none that is late.

A call of many large images holds up nobody: the next instance is always of the call that has had least, so that a new
call waits for the instances under way and not for the calls before it.
"""

import asyncio
import contextlib
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from limelight_service.errors import DeadlineError, InferenceError, ModelUnavailableError
from limelight_service.observability.logs import describe
from limelight_service.platform.averages import moved
from limelight_service.platform.threads import background

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LEARNING = 0.05  # weight of the last instance in the average


@dataclass(eq=False)
class _Task(Generic[T]):
    """A call's instances. had: seconds of those that are done. future: None once nobody waits."""

    count: int
    prepare: Callable[[int], T]
    deadline: float | None
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[list[T]] | None"
    done: dict[int, T] = field(default_factory=dict)
    started: int = 0
    had: float = 0.0
    over: bool = False


class PreprocessingPool:
    """Threads that preprocess. `run` and `close` are for one event loop.

    seconds_each: by which an instance makes the next ones wait, on average of the last; 0 until two were seen.
    """

    def __init__(self, threads: int, work: str = "preprocess") -> None:
        """Start the threads, which are named after their work."""
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, _Task[Any]]] = []
        self._order = itertools.count()
        self._is_closed = False
        self._threads = threads
        self.seconds_each = 0.0
        self._first: float | None = None  # by which the first of all did: it may have stood still
        for number in range(threads):
            background(self._work, f"{work}-{number}").start()

    async def run(self, count: int, prepare: Callable[[int], T], deadline: float | None) -> list[T]:
        """Preprocess all instances of a call. Cancelling the awaiting task ends it after the instances under way.

        Args:
            prepare: makes the result of one instance, by its place.

        Raises:
            DeadlineError: the deadline passed first.
            ModelUnavailableError: the pool is closed.
            LimelightError: as `prepare` raises it.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[T]] = loop.create_future()
        task = _Task(count, prepare, deadline, loop, future)
        with self._changed:
            if self._is_closed:
                raise ModelUnavailableError("the server is stopping")
            self._push(task)
        try:
            return await future
        finally:
            # A failure's traceback holds this frame, and those of `prepare`: no cycle is left to be collected.
            task.over, task.future = True, None
            del future

    def close(self) -> None:
        """Stop the threads; calls that wait fail."""
        with self._changed:
            self._is_closed = True
            for _, _, task in self._waiting:
                _tell(task, ModelUnavailableError("the server is stopping"))
            self._waiting.clear()
            self._changed.notify_all()

    def _push(self, task: _Task[Any]) -> None:
        heapq.heappush(self._waiting, (task.had, next(self._order), task))
        self._changed.notify()

    def _work(self) -> None:
        """On a thread: preprocess instances until the pool is closed."""
        while (taken := self._take()) is not None:
            self._prepare(*taken)
            del taken  # a thread that waits keeps nothing of a call

    def _take(self) -> tuple[_Task[Any], int] | None:
        """Wait for the next instance: of the call that has had least. None once the pool is closed."""
        with self._changed:
            while True:
                if self._is_closed:
                    return None
                while self._waiting:
                    task = heapq.heappop(self._waiting)[2]
                    if task.over:
                        continue
                    place = task.started
                    task.started += 1
                    if task.started < task.count:  # another thread may take the next one
                        self._push(task)
                    return task, place
                self._changed.wait()

    def _prepare(self, task: _Task[Any], place: int) -> None:
        before = time.monotonic()
        if task.deadline is not None and task.deadline <= before:
            self._fail(task, DeadlineError("the deadline passed before a thread was free for the call"))
            return
        try:
            prepared = task.prepare(place)
        except BaseException as error:
            self._fail(task, _contained(error))
            return
        took = time.monotonic() - before
        with self._changed:
            each = took / self._threads
            if self.seconds_each:
                self.seconds_each = moved(self.seconds_each, each, _LEARNING)
            elif self._first is None:
                self._first = each
            else:
                self.seconds_each = min(self._first, each)
            task.done[place] = prepared
            task.had += took
            if len(task.done) < task.count:
                return
        _tell(task, [task.done[each] for each in range(task.count)])

    def _fail(self, task: _Task[Any], error: Exception) -> None:
        task.over = True
        _tell(task, error)


def _tell(task: _Task[Any], outcome: Any) -> None:
    def deliver() -> None:
        if task.future is None or task.future.done():
            return
        if isinstance(outcome, Exception):
            task.future.set_exception(outcome)
        else:
            task.future.set_result(outcome)

    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
        task.loop.call_soon_threadsafe(deliver)


def _contained(error: BaseException) -> Exception:
    """Give an error that ends no more than its call: a library's panic is no `Exception`."""
    if isinstance(error, Exception):
        return error
    logger.error("a library failed on an input: %s", describe(error))  # its message may quote the input
    return InferenceError("the model failed on this input")
