"""Ends runs of graphs that take longer than they may: a worker that nobody frees is a worker less."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakSet

from limelight_service.platform.threads import background

_LOOK_SECONDS = 0.1


class Run:
    """One run under way.

    Attributes:
        end: when it has taken too long, on the clock of `time.monotonic`.
        lost: when it counts as one that cannot be ended.
        overdue: it was stopped for taking too long.
        thread: that it runs on.
    """

    __slots__ = ("end", "lost", "options", "overdue", "thread")

    def __init__(self, options: Any, seconds: float) -> None:
        self.options = options
        self.end = time.monotonic() + seconds
        self.lost = self.end + seconds
        self.overdue = False
        self.thread = threading.get_ident()


class Listener(Protocol):
    """Hears of threads whose run cannot be ended: the runtime looks for its end between two operators only."""

    def lost(self, thread: int) -> None:
        """Take a thread, by `threading.get_ident`, that has not come back."""


class Watch:
    """Watches all runs of a process, on one thread that looks ten times a second while something runs.

    It costs a run less than a microsecond.
    """

    def __init__(self) -> None:
        self._runs: set[Run] = set()
        self._some = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._listeners: WeakSet[Listener] = WeakSet()

    def add_listener(self, listener: Listener) -> None:
        """Report lost threads to a listener, as long as it exists."""
        self._listeners.add(listener)

    def begin(self, options: Any, seconds: float) -> Run:
        """Watch a run that begins now. options: ONNX Runtime's `RunOptions`, which the run gets."""
        run = Run(options, seconds)
        self._runs.add(run)
        if not self._some.is_set():
            self._some.set()
            self._start()
        return run

    def end(self, run: Run) -> None:
        """Watch it no longer."""
        self._runs.discard(run)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = background(self._work, "watch")
                self._thread.start()

    def _work(self) -> None:
        while self._some.wait():
            time.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            for run in list(self._runs):
                if run.end <= now and not run.overdue:
                    run.overdue = True
                    run.options.terminate = True
                elif run.lost <= now:
                    run.lost = math.inf
                    for listener in list(self._listeners):
                        listener.lost(run.thread)
            if not self._runs:
                self._some.clear()
                if self._runs:  # one that began meanwhile saw that it need not set it
                    self._some.set()


WATCH = Watch()


class RunLimit:
    """The longest time of a run of one graph, and the number of runs in a row that took longer.

    For several threads: a count that is one off does no harm.
    """

    def __init__(self, seconds: float, overran: Callable[[], None] = lambda: None) -> None:
        """Limit runs to some seconds. overran: called for each run that was ended."""
        self.seconds = seconds
        self.exceeded = 0
        self._overran = overran

    def ended(self) -> None:
        """Count a run that ended by itself."""
        if self.exceeded:
            self.exceeded = 0

    def overran(self) -> None:
        """Count a run that was ended."""
        self.exceeded += 1
        self._overran()
