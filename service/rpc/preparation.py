"""Prepares the instances of calls: one instance at a time, fairly between calls, and nothing that is late.

A call of many large images holds up nobody: the next instance is always of the call that has had least, so that a new
call waits for the instances under way, not for the calls before it.

Lanes do it, between their batches, where they are as many as cores: more threads than those wait for each other while
cores wait for them (docs/decisions/0023-lanes-prepare-as-well.md). Elsewhere threads of their own do.
"""

import asyncio
import contextlib
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from service.engine.cost import LearnedCost
from service.engine.engine import Engine
from service.errors import DeadlineError, InferenceError, ModelUnavailableError
from service.observability.logs import describe
from service.threads import background

logger = logging.getLogger(__name__)

_One = TypeVar("_One")
_All = TypeVar("_All")
_SECONDS_A_BYTE = 1e-7  # until something was prepared


@dataclass(frozen=True)
class Instances(Generic[_One, _All]):
    """What there is to prepare of one call.

    kind: calls of one kind cost alike (those of one model). size: bytes of the request.
    prepare: one instance, by its place. combine: all of them, once they are there.
    """

    kind: Hashable
    count: int
    size: int
    prepare: Callable[[int], _One]
    combine: Callable[[list[_One]], _All]
    deadline: float | None = None


@dataclass(eq=False)
class _Task:
    """A call on its way. had: seconds of the instances that are done. future: None once nobody waits."""

    instances: Instances[Any, Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any] | None
    expected: float
    done: dict[int, Any] = field(default_factory=dict)
    started: int = 0
    had: float = 0.0
    over: bool = False


class Preparation:
    """What waits to be prepared, and what is learned of it. Its methods are for one event loop, but for those of
    `service.engine.lane_work.Chores`.

    most: instances that are prepared at the same time. lanes: those that do it; None for as many threads of its own.
    """

    def __init__(self, most: int, lanes: Engine | None = None) -> None:
        self._changed = threading.Condition()
        self._waiting: list[tuple[float, int, _Task]] = []
        self._order = itertools.count()
        self._costs: WeakKeyDictionary[Hashable, LearnedCost] = WeakKeyDictionary()
        self._unfinished: set[_Task] = set()
        self._expected = 0.0  # seconds, of all that are unfinished
        self._under_way: list[_Task] = []  # one for each instance
        self._ending = False
        self._most = most
        self._lanes = lanes
        if lanes is not None:
            lanes.lend(self)
            return
        for number in range(most):
            background(self._work, f"prepare-{number}").start()

    def expected_seconds(self, kind: Hashable, size: int) -> float:
        """Expect how long from now a request of so many bytes takes to be prepared. 0 where nothing waits.

        A large call before it does not hold it up for all of its own time: each has no more than this one takes, but
        for an instance that is under way. What this costs does not grow with what waits.
        """
        with self._changed:
            if not self._unfinished:
                return 0.0
            own = self._cost(kind).seconds(size)
            others = min(self._expected, own * len(self._unfinished))
            under_way = max((each.expected / each.instances.count for each in self._under_way), default=0.0)
            return others / self._most + own + under_way

    async def run(self, instances: Instances[_One, _All]) -> _All:
        """Prepare all instances of a call. Cancelling the awaiting task ends the work after the instance under way.

        Raises: what preparing one of them raises; DeadlineError once it is late;
        ModelUnavailableError once the threads are stopped.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_All] = loop.create_future()
        with self._changed:
            if self._ending:
                raise ModelUnavailableError("the server is stopping")
            task = _Task(instances, loop, future, self._cost(instances.kind).seconds(instances.size))
            self._unfinished.add(task)
            self._expected += task.expected
            self._push(task)
        if self._lanes is not None:
            self._lanes.wake()
        try:
            return await future
        finally:
            with self._changed:
                self._end(task)
            # A failure's traceback holds this frame, and those that prepare: no cycle is left to be collected.
            task.future = None
            del future

    def close(self) -> None:
        """Stop the threads; what waits fails."""
        with self._changed:
            self._ending = True
            for _, _, task in self._waiting:
                self._tell(task, ModelUnavailableError("the server is stopping"))
            self._waiting.clear()
            self._changed.notify_all()

    def _cost(self, kind: Hashable) -> LearnedCost:
        return self._costs.setdefault(kind, LearnedCost(_SECONDS_A_BYTE))

    def _push(self, task: _Task) -> None:
        heapq.heappush(self._waiting, (task.had, next(self._order), task))
        self._changed.notify()

    def _end(self, task: _Task) -> None:
        task.over = True
        if task in self._unfinished:
            self._unfinished.remove(task)
            self._expected = self._expected - task.expected if self._unfinished else 0.0

    def is_ready(self) -> bool:
        """Tell whether something waits that may begin now."""
        with self._changed:
            return bool(self._waiting) and len(self._under_way) < self._most and not self._ending

    def take(self) -> Callable[[], None] | None:
        """Give the next instance, of the call that has had least, as a function that prepares it; None where none is to
        begin now.
        """
        with self._changed:
            while self.is_ready():
                task = heapq.heappop(self._waiting)[2]
                if task.over:
                    continue
                place = task.started
                task.started += 1
                if task.started < task.instances.count:  # another thread may take the next one
                    self._push(task)
                self._under_way.append(task)
                return partial(self._do, task, place)
            return None

    def _do(self, task: _Task, place: int) -> None:
        try:
            self._prepare(task, place)
        finally:
            with self._changed:
                self._under_way.remove(task)

    def _work(self) -> None:
        """On a thread of its own: prepare what there is until the end."""
        while True:
            with self._changed:
                while (prepare := self.take()) is None:
                    if self._ending:
                        return
                    self._changed.wait()
            prepare()
            del prepare  # a thread that waits keeps nothing of a call, nor its model

    def _prepare(self, task: _Task, place: int) -> None:
        instances = task.instances
        if instances.deadline is not None and instances.deadline <= time.monotonic():
            self._fail(task, DeadlineError("the deadline passed before the instances were prepared"))
            return
        before = time.monotonic()
        try:
            prepared = instances.prepare(place)
        except BaseException as error:
            self._fail(task, _contained(error))
            return
        self._done(task, place, prepared, time.monotonic() - before)

    def _done(self, task: _Task, place: int, prepared: Any, seconds: float) -> None:
        instances = task.instances
        with self._changed:
            task.done[place] = prepared
            task.had += seconds
            if len(task.done) < instances.count:
                return
            self._cost(instances.kind).learn(instances.size, task.had)
            self._end(task)
        try:
            combined = instances.combine([task.done[each] for each in range(instances.count)])
        except BaseException as error:
            self._fail(task, _contained(error))
            return
        self._tell(task, combined)

    def _fail(self, task: _Task, error: Exception) -> None:
        with self._changed:
            self._end(task)
        self._tell(task, error)

    def _tell(self, task: _Task, outcome: Any) -> None:
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
