"""What answers would take, as whoever gives them has said it last."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from service.engine.types import Outlook


class Outlooks:
    """The outlook of calls of one kind: of a method, to a model, of about one size. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = Outlook(0.0, 0)
        self._since = 0.0
        self._under_way = 0

    def learn(self, outlook: Outlook) -> None:
        """Take account of what was said last."""
        self._last, self._since = outlook, self._clock()

    def late(self, deadline: float | None) -> float:
        """Tell by how many seconds a call would be late if it were handed on now; 0 or less where it is in time.

        Calls that were handed on, and that the outlook does not count yet, take as long as those it counts.
        deadline: on the clock.
        """
        if deadline is None or not self._last.seconds:
            return -inf
        further = max(0, self._under_way - self._last.ahead) / (self._last.ahead + 1)
        now = self._clock()
        needed = self._last.seconds * (1 + further) - (now - self._since)
        return now + needed - deadline

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Have a call handed on, for the length of a block."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
