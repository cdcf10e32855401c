"""Bounds the memory that calls hold together; what one call may hold is bounded elsewhere."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from limelight_service.errors import QueueFullError
from limelight_service.observability.observer import Observer, Rejection

_RETRY_AFTER = 0.5


@dataclass(frozen=True, order=True)
class Transient:
    """Memory that a row needs only while a worker computes it.

    a_worker: bytes of a worker that is full of such rows. size: of the row itself.
    """

    a_worker: float
    size: int


class MemoryBudget:
    """Counts bytes that are held. For one event loop.

    limit: of bytes. what: names it in messages. workers: threads that hold transient bytes. A call that is alone always
    gets its share.
    """

    def __init__(self, limit: int, what: str, observer: Observer, *, workers: int = 0) -> None:
        self.limit = limit
        self._what = what
        self._observer = observer
        self._workers = workers
        self._kept = 0
        self._transient: list[Transient] = []
        self._all_transient = 0

    @property
    def held(self) -> int:
        """Largest number of bytes held: those of calls, and the largest transient bytes of all workers."""
        if not self._transient:
            return self._kept
        room, total = float(self._workers), float(self._kept)
        for each in reversed(self._transient):
            part = min(1.0, room * each.a_worker / each.size)
            total += part * each.size
            room -= part * each.size / each.a_worker
            if part < 1:
                break
        return ceil(total)

    def take(self, count: int, transient: Sequence[Transient] = ()) -> "Held":
        """Hold so many bytes until they are released, and transient ones until `Held.keep_only`.

        Raises: QueueFullError at once where others hold too much already.
        """
        wanted = count + sum([each.size for each in transient]) if transient else count
        fits = self._kept + self._all_transient + wanted <= self.limit
        before = 0 if fits else self.held  # which takes a while
        taken = Held(self, count, transient)
        if before and self.held > self.limit:
            taken.release()
            self._observer.rejected(Rejection.QUEUE_FULL, 1)
            raise QueueFullError(
                f"{self._what} in flight take {before} bytes already, of at most {self.limit}; try again later",
                retry_after=_RETRY_AFTER,
            )
        return taken


class Held:
    """A call's reservation in a budget, until it is released; as a context manager, for the length of a block."""

    __slots__ = ("_budget", "_kept", "_transient")

    def __init__(self, budget: MemoryBudget, kept: int, transient: Sequence[Transient]) -> None:
        self._budget = budget
        self._kept = kept
        self._transient = transient
        budget._kept += kept
        for each in transient:
            if each.size:
                insort(budget._transient, each)
                budget._all_transient += each.size

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_: object) -> None:
        self.keep_only(0)

    def keep_only(self, count: int) -> None:
        """Keep so many bytes, and nothing transient."""
        budget = self._budget
        budget._kept += count - self._kept
        self._kept = count
        for each in self._transient:
            if each.size:
                del budget._transient[bisect_left(budget._transient, each)]
                budget._all_transient -= each.size
        self._transient = ()

    def release(self) -> None:
        """Hold nothing any more."""
        self.keep_only(0)
