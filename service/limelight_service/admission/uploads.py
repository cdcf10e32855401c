"""Bounds what is received at the same time, and how long that may take.

gRPC holds back a caller who sends more than a few packets until its message is asked for; from then on it receives all
of it, of which nothing can be seen before it is complete. So a message is asked for only where there is a place for one
of the largest size. Messages that are there already, as small ones are, have a place for a moment: the quick ones. Who
takes longer moves to a place of the slow ones, and where there is none, has to come back.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import grpc

from limelight_service.admission.turns import Turns
from limelight_service.errors import DeadlineError, QueueFullError
from limelight_service.observability.observer import Observer, Rejection
from limelight_service.platform.shielding import shielded

_MOMENT = 0.025  # seconds that a quick one has, unless somebody says otherwise
_LOOKS = 4  # in a moment, and as many after it before somebody counts as slow: a message takes three turns to get here
_STANDING = 80  # moments after which it does, however busy the event loop is
_FAIR = 2.0  # seconds after which a slow one makes room for another
_MOST_WAITING = 1024  # each of whom gRPC holds 64 KiB of
_RETRY_AFTER = 1.0

# Called once the message of the current call is there, or takes longer than a moment.
RECEIVED: ContextVar[Callable[[], None]] = ContextVar("RECEIVED", default=lambda: None)


@dataclass(frozen=True)
class UploadSlots:
    """Limits on messages that arrive at the same time: one for short uploads, one for long uploads."""

    quick: int
    slow: int

    @classmethod
    def within(cls, memory: int, largest: int) -> "UploadSlots":
        """Have as many as so much memory holds messages of the largest size: half of them for each, at least one."""
        half = max(1, memory // (2 * largest))
        return cls(half, half)


@dataclass(eq=False)
class _Arrival:
    """A message on its way.

    end: ends its call with an error. received: as `RECEIVED`. late: how often it was late when looked at by a loop that
    was not.
    """

    end: Callable[[Exception], Awaitable[None]]
    began: float
    received: Callable[[], None]
    late: int = 0


class UploadLimiter:
    """Receives messages. For one event loop.

    seconds: that a message may take. moment: that a quick one may.
    """

    def __init__(self, places: UploadSlots, seconds: float, observer: Observer, moment: float = _MOMENT) -> None:
        self._places = places
        self._moment = moment
        self._seconds = seconds
        self._observer = observer
        self._free = places.quick
        self._waiting = Turns[None]()
        self._quick: dict[_Arrival, None] = {}  # oldest first, as the slow ones
        self._slow: dict[_Arrival, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0  # when it is
        self._ending: set[asyncio.Task[None]] = set()

    async def message(self, context: Any, end: Callable[[Exception], Awaitable[None]]) -> bytes | None:
        """Receive the next message of a call; None where there is no other, or gRPC has ended the call for its size.

        end: ends the call with an error, DeadlineError or QueueFullError, while its message is on its way; reading
        fails then. Raises: QueueFullError where too many wait.
        """
        if self._free:
            self._free -= 1
        else:
            await self._turn()
        arrival = _Arrival(end, time.monotonic(), RECEIVED.get())
        self._quick[arrival] = None
        if self._timer is None:
            self._look_again()
        try:
            # gRPC frees what it reads with only where it may finish: not where the call is cancelled meanwhile.
            data: bytes = await shielded(context.read())
        finally:
            if arrival in self._quick:
                self._leave_quick(arrival)
            else:
                self._slow.pop(arrival, None)
            if self._timer is not None and not self._quick and not self._slow:
                self._timer.cancel()  # it would wake a process that is idle, or what computes
                self._timer = None
        return None if data is grpc.aio.EOF else data

    async def _turn(self) -> None:
        """Wait for a quick place. The newest is next: the honest need it for next to nothing, whoever came before."""
        if len(self._waiting) >= _MOST_WAITING:
            raise self._full("too many requests are arriving; try again later")
        await self._waiting.wait(None, self._give_turn)

    def _give_turn(self) -> None:
        if not self._waiting.give(newest=True):
            self._free += 1

    def _leave_quick(self, arrival: _Arrival) -> None:
        del self._quick[arrival]
        arrival.received()
        self._give_turn()

    def _look(self) -> None:
        """Move who takes longer than a moment, end who takes too long, and come back while anybody is there."""
        now = time.monotonic()
        # While the loop itself is late, what has come waits for it, behind whatever else it has to do.
        is_on_time = now - self._due < self._moment / _LOOKS
        for arrival in [each for each in self._quick if now - each.began >= self._moment]:
            arrival.late += is_on_time
            if arrival.late < _LOOKS and now - arrival.began < _STANDING * self._moment:
                continue
            self._leave_quick(arrival)
            if self._has_room(now):
                self._slow[arrival] = None
            else:
                self._end(arrival, self._full("too many large requests are arriving; try again later"))
        for arrival in [each for each in self._slow if now - each.began >= self._seconds]:
            del self._slow[arrival]
            self._end(arrival, DeadlineError(f"the request had not arrived after {self._seconds:g} s"))
        self._timer = None
        if self._quick or self._slow:
            self._look_again()

    def _look_again(self) -> None:
        seconds = self._moment / _LOOKS
        self._due = time.monotonic() + seconds
        self._timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _has_room(self, now: float) -> bool:
        """Tell whether there is a slow place, made by the oldest where it has had its share."""
        if len(self._slow) < self._places.slow:
            return True
        oldest = next(iter(self._slow))
        if now - oldest.began < _FAIR:
            return False
        del self._slow[oldest]
        self._end(oldest, self._full("the request arrives too slowly, and others wait; try again later"))
        return True

    def _full(self, message: str) -> QueueFullError:
        self._observer.rejected(Rejection.QUEUE_FULL, 1)
        return QueueFullError(message, retry_after=_RETRY_AFTER)

    def _end(self, arrival: _Arrival, error: Exception) -> None:
        async def end() -> None:
            with suppress(grpc.aio.BaseError):  # aborting raises, in whatever state the call is
                await arrival.end(error)

        ending = asyncio.get_running_loop().create_task(end())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
