"""Has bundles checked by processes of their own: one as long as it keeps up, more where one is held up."""

import logging
import threading
import time
from pathlib import Path
from typing import Protocol

from limelight_service.checking.process import CheckingProcess
from limelight_service.checking.verdict import Interrupted, Request, Verdict
from limelight_service.engine.runtime.providers import Provider
from limelight_service.errors import ModelUnavailableError
from limelight_service.settings import Settings

logger = logging.getLogger(__name__)

_PATIENCE = 1.0  # seconds that a bundle waits before another process is started for it
_STUCK = 5.0  # seconds with one bundle after which a process counts as held up
_ATTEMPTS = 3


class Checks(Protocol):
    """Checks bundles. From several threads at once."""

    def check(self, folder: Path, provider: Provider, settings: Settings, saves: Path | None = None) -> Verdict:
        """Check a bundle. Raises: ModelUnavailableError once the server stops.

        saves: an empty folder for weights as the runtime packs them.
        """

    def close(self) -> None:
        """End what is being checked."""


class Checker:
    """Starts checking processes where there is something to check; they end when there is nothing more.

    most: processes that may be held up by bundles that loop, beside those (one a core) that check the others.
    idle: seconds after which a process ends that has nothing to do.
    """

    def __init__(self, most: int = 4, *, idle: float = 3.0) -> None:
        self._most = most
        self._idle_seconds = idle
        self._changed = threading.Condition()
        self._idle: list[CheckingProcess] = []
        self._busy: dict[CheckingProcess, float] = {}
        self._starting = 0
        self._closed = False

    def check(self, folder: Path, provider: Provider, settings: Settings, saves: Path | None = None) -> Verdict:
        """Check a bundle in a process that is free.

        Where a process is killed, or `_ATTEMPTS` of them end before they have begun, the check is interrupted.
        Raises: ModelUnavailableError once this is closed.
        """
        request, why = Request(folder, provider, settings, saves), ""
        for _ in range(_ATTEMPTS):
            process = self._take(settings.core_count)
            try:
                verdict = process.check(request)
            finally:
                self._leave(process)
            if self._closed:
                break
            if verdict is not None:
                if not isinstance(verdict, Interrupted):
                    return verdict
                why = verdict.why
                logger.warning("a check was interrupted: %s", why)
                break
            why = "no process can be started to check it; the server's log says why"
            logger.warning("a process that checks bundles ended before it began: %s", process.last_words())
        if self._closed:
            raise ModelUnavailableError("the server is stopping")
        return Interrupted(why)

    def close(self) -> None:
        """Kill every process; nothing is checked from now on."""
        with self._changed:
            self._closed = True
            for busy in self._busy:
                busy.kill()
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for each in idle:
            each.close()

    def _take(self, cores: int) -> CheckingProcess:
        """Wait for a process; start one where there is none, or those that there are do not keep up."""
        waiting_since = time.monotonic()
        with self._changed:
            while True:
                if self._closed:
                    raise ModelUnavailableError("the server is stopping")
                while self._idle:
                    process = self._idle.pop()
                    if process.is_alive:
                        self._busy[process] = time.monotonic()
                        return process
                    process.close()  # it had nothing to do for long enough
                now = time.monotonic()
                stuck = sum(now - since > _STUCK for since in self._busy.values())
                running = len(self._busy) + self._starting
                keep_up = now - waiting_since < _PATIENCE
                if not running or (not keep_up and running < cores + min(stuck, self._most)):
                    break
                self._changed.wait(_PATIENCE)
            self._starting += 1
        return self._started()

    def _started(self) -> CheckingProcess:
        process = None
        try:
            process = CheckingProcess(self._idle_seconds)
        except OSError as error:
            raise ModelUnavailableError(f"no process can be started to check it: {error.strerror}") from error
        finally:
            with self._changed:
                self._starting -= 1
                if process is not None:
                    self._busy[process] = time.monotonic()
                    if self._closed:
                        process.kill()
        return process

    def _leave(self, process: CheckingProcess) -> None:
        with self._changed:
            del self._busy[process]
            usable = process.is_alive and not self._closed
            if usable:
                self._idle.append(process)
            self._changed.notify_all()
        if not usable:
            process.close()
