"""Signals, and leaving the process: in order where something is served, otherwise at once."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from limelight_service.observability.logs import flush_logs

INTERRUPTED = 1
_ONE_REQUEST = 1.0  # seconds in which several signals ask for one stop: a service manager sends one, its shell another
_STOPPING = (signal.SIGTERM, signal.SIGINT)
_TAKEN = (*_STOPPING, signal.SIGHUP)


@contextmanager
def spared() -> Iterator[None]:
    """Start a process that lives and ends with this one: within the block, what is started receives no signal that a
    server takes until it calls `leave_signals_to_parent`.

    Service managers send their signal to every process of a service (`KillMode=control-group` of systemd).
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TAKEN)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_signals_to_parent() -> None:
    """Ignore signals that a server takes, in a process that acts on its parent's word, and ends once that is gone."""
    for number in _TAKEN:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _TAKEN)


def leave_on_signal() -> None:
    """Have signals end the process at once, with status 0: for the time before anything runs that has to be stopped.

    SIGHUP, which asks a server to read its files again, has no effect before it has read them.
    """
    for number in _STOPPING:
        signal.signal(number, lambda *_: os._exit(0))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def leave(status: int = 0) -> None:
    """End the process, whatever its threads do; what was logged and printed is written before.

    A thread that is inside a library (a batch that runs, a model that is loaded) would keep it from ending.
    """
    flush_logs()
    with suppress(OSError, ValueError):  # nobody reads it, its disk is full, or it is closed
        sys.stdout.flush()
    os._exit(status)


def notify(state: str) -> None:
    """Tell a service manager that asks for it how far this process is (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


class Stop:
    """Stop requests by signal. For one event loop."""

    def __init__(self, at_once: Callable[[], None]) -> None:
        self._at_once = at_once
        self._serving = False
        self._first = 0.0
        self.signalled = asyncio.Event()

    def serving(self) -> None:
        """From now on there is something to stop in order; until then a signal ends the process."""
        self._serving = True
        notify("READY=1")

    def signal(self) -> None:
        """A signal came; one that comes a second after the first, or later, ends the process at once."""
        now = asyncio.get_running_loop().time()
        if self.signalled.is_set():
            if now - self._first < _ONE_REQUEST:
                return
            self._at_once()
            os._exit(INTERRUPTED)
        self._first = now
        self.signalled.set()
        notify("STOPPING=1")
        if not self._serving:
            self._at_once()
            leave()


@contextmanager
def stop_signals(at_once: Callable[[], None] = lambda: None) -> Iterator[Stop]:
    """Have signals ask for a stop for the length of a block. at_once: what is done before the process is ended."""
    stop, loop = Stop(at_once), asyncio.get_running_loop()
    for number in _STOPPING:
        loop.add_signal_handler(number, stop.signal)
    try:
        yield stop
    finally:
        for number in _STOPPING:
            loop.remove_signal_handler(number)


def on_hang_up(act: Callable[[], None]) -> None:
    """Call a function on the event loop at each SIGHUP, by which operators ask for files to be read again."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, act)
