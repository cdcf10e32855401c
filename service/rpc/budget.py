"""Bounds the memory that calls hold together; what one call may hold is bounded elsewhere."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil

from service.engine.observer import Observer, Rejection
from service.errors import QueueFullError

_RETRY_AFTER = 0.5


@dataclass(frozen=True, order=True)
class Passing:
    """What a row holds only while a lane computes it.

    a_lane: bytes of a lane that is full of such rows. size: of the row itself.
    """

    a_lane: float
    size: int


class Budget:
    """Counts bytes that are held. For one event loop.

    limit: of bytes. what: is held, for the message. lanes: how many of them hold what is passing. A call that is alone
    always gets its share.
    """

    def __init__(self, limit: int, what: str, observer: Observer, *, lanes: int = 0) -> None:
        self.limit = limit
        self._what = what
        self._observer = observer
        self._lanes = lanes
        self._kept = 0
        self._passing: list[Passing] = []

    @property
    def held(self) -> int:
        """How many bytes are held at most: what calls keep, and of what is passing the lanes' fill of the largest."""
        room, total = float(self._lanes), float(self._kept)
        for each in reversed(self._passing):
            part = min(1.0, room * each.a_lane / each.size)
            total += part * each.size
            room -= part * each.size / each.a_lane
            if part < 1:
                break
        return ceil(total)

    def take(self, count: int, passing: Sequence[Passing] = ()) -> "Held":
        """Hold so many bytes until they are released, and what is passing until no more than `count` is kept of it.

        Raises: QueueFullError at once where others hold too much already.
        """
        before = self.held
        taken = Held(self, count, [each for each in passing if each.size])
        if before and self.held > self.limit:
            taken.release()
            self._observer.rejected(Rejection.QUEUE_FULL, 1)
            raise QueueFullError(
                f"{self._what} in flight take {before} bytes already, of at most {self.limit}; try again later",
                retry_after=_RETRY_AFTER,
            )
        return taken

    @contextmanager
    def hold(self, count: int, passing: Sequence[Passing] = ()) -> Iterator[None]:
        """Hold so many bytes for the length of a block. Raises: QueueFullError as `take`."""
        taken = self.take(count, passing)
        try:
            yield
        finally:
            taken.release()


@dataclass(eq=False)
class Held:
    """What one call holds of a budget."""

    _budget: Budget
    _kept: int
    _passing: Sequence[Passing]

    def __post_init__(self) -> None:
        budget = self._budget
        budget._kept += self._kept
        for each in self._passing:
            insort(budget._passing, each)

    def shrink(self, count: int) -> None:
        """Keep so many bytes, and nothing that is passing."""
        budget = self._budget
        budget._kept += count - self._kept
        self._kept = count
        for each in self._passing:
            del budget._passing[bisect_left(budget._passing, each)]
        self._passing = ()

    def release(self) -> None:
        """Hold nothing any more."""
        self.shrink(0)
