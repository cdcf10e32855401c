"""Signals, and leaving the process: in order where something is served, otherwise at once."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from service.logs import flush_logs

INTERRUPTED = 1


def stopping_signals() -> tuple[signal.Signals, ...]:
    """Tell which signals stop a server.

    That of a terminal which is closed is left alone where it was ignored: `nohup` asks for that.
    """
    hung_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGTERM, signal.SIGINT, *hung_up)


def leave_on_signal() -> None:
    """Have signals end the process at once, with status 0: for the time before anything runs that has to be stopped."""
    for number in stopping_signals():
        signal.signal(number, lambda *_: os._exit(0))


def leave(status: int = 0) -> None:
    """End the process, whatever its threads do; what was logged and printed is written before.

    A thread that is inside a library (a batch that runs, a model that is loaded) would keep it from ending.
    """
    flush_logs()
    sys.stdout.flush()
    os._exit(status)


class Stop:
    """What signals asked for. For one event loop."""

    def __init__(self, at_once: Callable[[], None]) -> None:
        self._at_once = at_once
        self._serving = False
        self.signalled = asyncio.Event()

    def serving(self) -> None:
        """From now on there is something to stop in order; until then a signal ends the process."""
        self._serving = True

    def signal(self) -> None:
        """A signal came; the second ends the process at once."""
        if self.signalled.is_set():
            self._at_once()
            os._exit(INTERRUPTED)
        self.signalled.set()
        if not self._serving:
            self._at_once()
            leave()


@contextmanager
def stop_signals(at_once: Callable[[], None] = lambda: None) -> Iterator[Stop]:
    """Have signals ask for a stop for the length of a block. at_once: what is done before the process is ended."""
    stop, loop, numbers = Stop(at_once), asyncio.get_running_loop(), stopping_signals()
    for number in numbers:
        loop.add_signal_handler(number, stop.signal)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
