"""Ends runs of graphs that take longer than they may: a lane that nobody frees is a lane less."""

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakSet

from service.threads import background

_LOOK_SECONDS = 0.1


class Run:
    """One run under way. lost: when it counts as one that cannot be ended. overdue: it was told to end, for it took too
    long. thread: that it runs on.
    """

    __slots__ = ("end", "lost", "options", "overdue", "thread")

    def __init__(self, options: Any, seconds: float) -> None:
        self.options = options
        self.end = time.monotonic() + seconds
        self.lost = self.end + seconds
        self.overdue = False
        self.thread = threading.get_ident()


class Listener(Protocol):
    """Is told of threads whose run cannot be ended: the runtime looks whether it should between two operators only."""

    def lost(self, thread: int) -> None:
        """A thread has not come back; by `threading.get_ident`."""


class Watch:
    """Watches all runs of a process. One thread, which looks ten times a second while something runs, and sleeps while
    nothing does; what it costs a run is less than a microsecond.
    """

    def __init__(self) -> None:
        self._runs: set[Run] = set()
        self._some = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._listeners: WeakSet[Listener] = WeakSet()

    def tell(self, listener: Listener) -> None:
        """Have something told of threads that are lost, as long as it is there."""
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
    """How long a run of one graph may take, and how many in a row took longer.

    tell: called on each that was ended. For several threads: a count that is one off does no harm.
    """

    def __init__(self, seconds: float, tell: Callable[[], None] = lambda: None) -> None:
        self.seconds = seconds
        self.exceeded = 0
        self._tell = tell

    def kept(self) -> None:
        """A run ended by itself."""
        if self.exceeded:
            self.exceeded = 0

    def broken(self) -> None:
        """A run was ended."""
        self.exceeded += 1
        self._tell()
