"""Objects made from files, and made again when these change.

Whatever a path becomes meanwhile, what was read last and was good counts: that is said when it begins, again as long as
it lasts, and the files are looked at all the time.
"""

import asyncio
import logging
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from limelight_bundle.errors import LimelightError
from limelight_service.observability.logs import describe
from limelight_service.observability.metrics import Metrics

logger = logging.getLogger(__name__)

_INTERVAL = 1.0  # seconds; a secret that Kubernetes mounts changes by a link, which no notice of one file tells
_REMIND = 600.0  # seconds between two lines about files that stay bad
_LARGEST = 4 * 2**20
T = TypeVar("T")


class Watched(Generic[T]):
    """Something made of files.

    what: it is called in messages, logs and metrics. make: makes it of the files' contents; raises LimelightError.
    Raises: LimelightError where the files are no good at first.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        make: Callable[[Sequence[bytes]], T],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._paths = paths
        self._make = make
        self._metrics = metrics
        self._clock = clock
        self._bad = ""  # why the files cannot be used
        self._said = 0.0
        self._tried: Sequence[bytes] | str = self._read()
        self._seen = self._tried
        self.value = self._made(self._tried)
        metrics.reloads(what)

    def refresh(self, *, complete: bool = False) -> bool:
        """Look whether the files have changed, and if so make it again; True where that brought something new.

        complete: nobody is writing them any more. Otherwise they count once they are what they were at the last look: a
        file that is being written can be a good one without its end, and of a certificate and its key one is written
        first.
        """
        found, before = self._read(), self._seen
        self._seen = found
        if (found != before and not complete) or found == self._tried:
            self._remind()
            return False
        self._tried = found
        try:
            self.value = self._made(found)
        except LimelightError as error:
            self._bad = error.message
        except Exception as error:  # whatever a file has brought about: the next one is to be read
            self._bad = f"the {self._what} cannot be used: {describe(error)}"
        else:
            self._bad = ""
        self._metrics.reloaded(self._what, ok=not self._bad)
        if self._bad:
            self._say()
            return False
        logger.info("the %s changed and was read again", self._what)
        return True

    def _remind(self) -> None:
        if self._bad and self._clock() - self._said >= _REMIND:
            self._say()

    def _say(self) -> None:
        self._said = self._clock()
        logger.error("%s; what was read before still counts", self._bad)

    def _read(self) -> Sequence[bytes] | str:
        """Give the files' contents, or why there are none."""
        contents = []
        for path in self._paths:
            try:
                content = _content(path)
            except OSError as error:
                return f"{path} cannot be read: {error.strerror}"
            if content is None:
                return f"{path} is no regular file"
            contents.append(content)
            if len(content) > _LARGEST:
                return f"{path} is larger than {_LARGEST} bytes"
        return contents

    def _made(self, found: Sequence[bytes] | str) -> T:
        if isinstance(found, str):
            raise LimelightError(f"the {self._what} cannot be used: {found}")
        try:
            return self._make(found)
        except LimelightError as error:
            named = ", ".join(map(str, self._paths))
            raise LimelightError(f"the {self._what} cannot be used: {error.message} ({named})") from error


def _content(path: Path) -> bytes | None:
    """Read a file; None for what is none. A pipe or a device is not waited for.

    Raises: OSError.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        return file.read(_LARGEST + 1) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None


async def keep_fresh(watched: Watched[T], changed: Callable[[T], None], hurry: asyncio.Event) -> None:
    """Look at the files every second, for as long as the task is not cancelled.

    changed: told of what is new. hurry: once set, the files are complete and are read at once.
    """
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(hurry.wait(), _INTERVAL)
        complete = hurry.is_set()
        hurry.clear()
        try:
            if await asyncio.to_thread(watched.refresh, complete=complete):
                changed(watched.value)
        except Exception as error:  # nothing that a file brings about ends this
            logger.error("files could not be looked at: %s", describe(error))
