"""Reasons to end training early: Ctrl-C, and a limit of time."""

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Self


class Interrupted(Exception):
    """Training was interrupted; its state is on disk."""


class Stop:
    """Asked between two steps. While entered, the first Ctrl-C (or SIGTERM) asks to stop; a second kills as ever."""

    def __init__(self, *, minutes: float = 0.0) -> None:
        self.interrupted = False
        self._deadline = time.monotonic() + 60 * minutes if minutes else float("inf")
        self._before: dict[signal.Signals, object] = {}

    @property
    def out_of_time(self) -> bool:
        """True past the limit."""
        return time.monotonic() >= self._deadline

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGINT, signal.SIGTERM):
                self._before[each] = signal.signal(each, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)  # type: ignore[arg-type]
        self._before = {}

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        self.__exit__(None, None, None)
