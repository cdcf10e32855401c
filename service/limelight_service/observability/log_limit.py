"""Bounds how many lines of one kind are logged: whoever makes the server write a line must not fill its disk."""

import threading
import time
from collections.abc import Callable, Hashable

_LINES, _SECONDS = 50, 10.0


class LineLimit:
    """Lets so many lines of a kind through in each span of time, and counts the others. For any thread.

    tell: called at the end of a span for each kind of which lines were left out, with their number.
    """

    def __init__(
        self,
        tell: Callable[[Hashable, int], None],
        *,
        lines: int = _LINES,
        seconds: float = _SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tell = tell
        self._lines = lines
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[Hashable, int] = {}
        self._until = 0.0
        self._timer: threading.Timer | None = None

    def allows(self, kind: Hashable) -> bool:
        """Count a line; gives whether it is to be written. kind: one of a few."""
        if self._clock() >= self._until:
            self.flush()
        with self._lock:
            count = self._counts[kind] = self._counts.get(kind, 0) + 1
            if count == self._lines + 1 and self._timer is None:
                self._timer = threading.Timer(self._seconds, self.flush)  # where no further line comes
                self._timer.daemon = True
                self._timer.start()
        return count <= self._lines

    def flush(self) -> None:
        """End the span, and tell what was left out of it."""
        with self._lock:
            counts, self._counts = self._counts, {}
            self._until = self._clock() + self._seconds
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for kind, count in counts.items():
            if count > self._lines:
                self._tell(kind, count - self._lines)
