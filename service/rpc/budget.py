"""Bounds the memory that calls hold together; what one call may hold is bounded elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.engine.observer import Observer, Rejection
from service.errors import QueueFullError

_RETRY_AFTER = 0.5


class Budget:
    """Counts bytes that are held. For one event loop.

    what: is held, for the message. A call that is alone always gets its share.
    """

    def __init__(self, limit: int, what: str, observer: Observer) -> None:
        self._limit = limit
        self._what = what
        self._observer = observer
        self._held = 0

    @contextmanager
    def hold(self, count: int) -> Iterator[None]:
        """Hold so many bytes for the length of a block.

        Raises: QueueFullError at once where others hold too much already.
        """
        if self._held and self._held + count > self._limit:
            self._observer.rejected(Rejection.QUEUE_FULL, 1)
            raise QueueFullError(
                f"{self._what} in flight take {self._held} bytes already, of at most {self._limit}; try again later",
                retry_after=_RETRY_AFTER,
            )
        self._held += count
        try:
            yield
        finally:
            self._held -= count
