"""Checks for several processes that serve the same bundles: each bundle is checked once, by whoever started them."""

import asyncio
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from limelight_service.checking.checker import Checks
from limelight_service.checking.verdict import Interrupted, Request, Verdict
from limelight_service.engine.runtime.providers import Provider
from limelight_service.errors import ModelUnavailableError
from limelight_service.settings import Settings


class Once:
    """Gives all who ask for a bundle what its first check found, until told to forget it."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks
        self._lock = threading.Lock()
        self._found: dict[Path, Future[Verdict]] = {}
        self._keeps = True

    def check(self, folder: Path, provider: Provider, settings: Settings, saves: Path | None = None) -> Verdict:
        """Check a bundle, or wait for the check that is under way. Raises: ModelUnavailableError once closed."""
        with self._lock:
            known = self._found.get(folder)
            mine: Future[Verdict] = known or Future()
            self._found[folder] = mine
        if known is None:
            keeps = False
            try:
                verdict = self._checks.check(folder, provider, settings, saves)
                keeps = self._keeps and not isinstance(verdict, Interrupted)  # which is tried again
                mine.set_result(verdict)
            except BaseException as error:
                mine.set_exception(error)
            if not keeps:
                self._found.pop(folder, None)
        return mine.result()

    def forget(self) -> None:
        """Check anew from now on what is asked for: bundles change."""
        with self._lock:
            self._keeps = False
            self._found = {folder: future for folder, future in self._found.items() if not future.done()}

    def close(self) -> None:
        """End what is being checked."""
        self._checks.close()


class RemoteChecks:
    """Has another process check; `send` carries a request, and `receive` is called with what comes back.

    send: called on the event loop that this was made on, with a number and a request.
    """

    def __init__(self, send: Callable[[int, Request], None]) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Verdict]] = {}

    def check(self, folder: Path, provider: Provider, settings: Settings, saves: Path | None = None) -> Verdict:
        """Ask for a bundle's check and wait for what it finds; in a thread. Raises: ModelUnavailableError."""
        number, answer = next(self._numbers), Future[Verdict]()
        self._asked[number] = answer
        self._loop.call_soon_threadsafe(self._send, number, Request(folder, provider, settings, saves))
        return answer.result()

    def receive(self, number: int, verdict: Verdict | None) -> None:
        """Take an answer; None where there is none."""
        answer = self._asked.pop(number)
        if verdict is None:
            answer.set_exception(ModelUnavailableError("no bundle can be checked now"))
        else:
            answer.set_result(verdict)

    def close(self) -> None:
        """Leave nobody waiting."""
        for number in list(self._asked):
            self.receive(number, None)
