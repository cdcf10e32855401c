"""What answers would take, as whoever gives them has said it last."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from service.engine.types import Outlook

# Where more comes than can be answered, a queue as long as deadlines allow makes every answer late by nearly as much
# and no more of them: for so many seconds after a call had to be refused, others like it may take this part of the time
# until their deadlines. Then the queue may grow again: callers who wait for their answers fill one that goes no
# further, and are to be refused nothing.
_SHORT, _STAYS_SHORT = 0.25, 5.0


class Outlooks:
    """The outlook of calls of one kind: of a method, to a model, of about one size. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = Outlook(0.0, 0)
        self._since = 0.0
        self._under_way = 0
        self._short_until = 0.0
        self._refused_left = 0.0  # seconds that a call had until its deadline, for which the queue is kept short

    def learn(self, outlook: Outlook) -> None:
        """Take account of what was said last."""
        self._last, self._since = outlook, self._clock()

    def late(self, deadline: float | None) -> float:
        """Tell by how many seconds a call would be late if it were handed on now; 0 or less where it is in time.

        Where none is under way, one always is handed on: what was said last may be wrong, and only calls tell. Those
        that were handed on, and that the outlook does not count yet, take as long as those it counts, but for what they
        save by sharing batches: twice as long altogether at most.
        deadline: on the clock.
        """
        if deadline is None or not self._last.seconds or not self._under_way:
            return -inf
        further = min(1.0, max(0, self._under_way - self._last.ahead) / (self._last.ahead + 1))
        now = self._clock()
        needed, left = self._last.seconds * (1 + further) - (now - self._since), deadline - now
        return needed - left * self._part(needed, left, now)

    def _part(self, needed: float, left: float, now: float) -> float:
        """Give the part of the time until its deadline that a call may take."""
        if self._last.beside:
            return 1.0
        is_short = now < self._short_until
        if needed > left and not (is_short and left < self._refused_left / 2):
            self._refused_left, self._short_until, is_short = left, now + _STAYS_SHORT, True
        # One who has far less time than others says nothing of what they have to wait for.
        return _SHORT if is_short and left <= 2 * self._refused_left else 1.0

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Have a call handed on, for the length of a block."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
