"""What is made of files, and made again when they change. A bad change leaves what there was, and is told once."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from bundle.errors import LimelightError
from service.metrics import Metrics

logger = logging.getLogger(__name__)

_INTERVAL = 1.0  # seconds; a secret that Kubernetes mounts changes by a link, which no notice of one file tells
_LARGEST = 4 * 2**20
T = TypeVar("T")


class Watched(Generic[T]):
    """Something made of files.

    what: it is called in messages, logs and metrics. make: makes it of the files' contents; raises LimelightError.
    Raises: LimelightError where the files are no good at first.
    """

    def __init__(
        self, what: str, paths: Sequence[Path], make: Callable[[Sequence[bytes]], T], metrics: Metrics
    ) -> None:
        self._what = what
        self._paths = paths
        self._make = make
        self._metrics = metrics
        self._tried: Sequence[bytes] | str = self._read()
        self._seen = self._tried
        self.value = self._made(self._tried)
        metrics.reloads(what)

    def refresh(self) -> bool:
        """Look whether the files have changed, and if so make it again; True where that brought something new.

        They count once they are what they were at the last look: a file that is being written can be a good one without
        its end, and of a certificate and its key one is written first.
        """
        found, before = self._read(), self._seen
        self._seen = found
        if found != before or found == self._tried:
            return False
        self._tried = found
        try:
            self.value = self._made(found)
        except LimelightError as error:
            self._metrics.reloaded(self._what, ok=False)
            logger.error("%s; what was read before still counts", error.message)
            return False
        except Exception as error:  # whatever a file has brought about: the next one is to be read
            self._metrics.reloaded(self._what, ok=False)
            logger.error("the %s cannot be used; what was read before still counts", self._what, exc_info=error)
            return False
        self._metrics.reloaded(self._what, ok=True)
        logger.info("the %s changed and was read again", self._what)
        return True

    def _read(self) -> Sequence[bytes] | str:
        """Give the files' contents, or why there are none."""
        contents = []
        for path in self._paths:
            try:
                with path.open("rb") as file:
                    contents.append(file.read(_LARGEST + 1))
            except OSError as error:
                return f"{path} cannot be read: {error.strerror}"
            if len(contents[-1]) > _LARGEST:
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


async def keep_fresh(watched: Watched[T], changed: Callable[[T], None]) -> None:
    """Look at the files every second, for as long as the task is not cancelled. changed: told of what is new."""
    while True:
        await asyncio.sleep(_INTERVAL)
        if await asyncio.to_thread(watched.refresh):
            changed(watched.value)
