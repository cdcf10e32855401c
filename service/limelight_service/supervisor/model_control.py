"""Changes of the models that a running server has: on request, or as its folder changes.

What is changed is the desired state, and then every engine. A version that is refused changes nothing else; one that is
gone answers until another version of its model can.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from limelight_bundle.errors import LimelightError
from limelight_bundle.names import BUNDLE_FILE
from limelight_service.repository.folders import Folders
from limelight_service.supervisor.desired import DesiredState

logger = logging.getLogger(__name__)

_Key = tuple[str, int]
# What tells that the files of a version are others: name, size, time of change and number of each.
Stamp = frozenset[tuple[str, int, int, int]]


class Engines(Protocol):
    """Every engine of a server."""

    async def load(self, name: str, version: int, folder: Path) -> None:
        """Load a version, or refuse it. Raises: ModelUnavailableError where it is there already."""

    async def unload(self, name: str, version: int) -> None:
        """Unload a version, once the calls that use it have ended. Raises: ModelNotFoundError."""

    async def ready(self) -> Mapping[_Key, bool]:
        """Tell of each version whether it can answer in every engine; those that are being loaded are not there."""


class ModelControl:
    """Carries out changes. For one event loop."""

    def __init__(self, desired: DesiredState, engines: Engines) -> None:
        self._desired = desired
        self._engines = engines
        self._seen: dict[_Key, Stamp] | None = None  # at the last look
        self._tried: dict[_Key, Stamp] = {}  # as versions were when they were loaded
        self._busy: dict[_Key, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._said = ""

    async def change(self, action: str, name: str, version: int) -> int:
        """Load or unload, as a caller asks; gives the version.

        Args:
            version: 0 to load the highest that the folder has, which may be there already.

        Raises:
            ModelNotFoundError: the folder has no such version, or the engines have none.
            ModelUnavailableError: it is loaded already, or is being loaded.
        """
        if action == "unload":
            self._desired.remove(name, version)
            await self._engines.unload(name, version)
            return version
        if not version:
            version = await self._desired.newest(name)
            if self._is_there((name, version), await self._engines.ready()):
                return version
        folder = await self._desired.folder(name, version)
        self._desired.add(name, version, folder)
        await self._engines.load(name, version, folder)
        return version

    async def follow(self, seconds: float) -> None:
        """Follow the folder until the task is cancelled. seconds: between two looks."""
        while True:
            self._wake.clear()
            try:
                await self.look()
            except LimelightError as error:
                self._say(error.message)
            try:
                await asyncio.wait_for(self._wake.wait(), seconds)
            except TimeoutError:
                continue

    def look_now(self) -> None:
        """Look at the folder at once."""
        self._wake.set()

    async def look(self) -> None:
        """Begin to load what has come, and to unload what has gone, where it was so at the last look too.

        Raises: LimelightError where the folder cannot be read.
        """
        found = await self._desired.there()
        stamps = await asyncio.to_thread(_stamps, found)
        before, self._seen = self._seen, stamps
        desired = self._desired.folders
        if before is None:
            self._tried = {key: stamps[key] for key in desired if key in stamps}
            return
        if desired and not found:
            self._say("the repository's folder is empty; its models stay")
            return
        self._said = ""
        ready = await self._engines.ready()
        for key, stamp in stamps.items():
            if before.get(key) == stamp and key not in self._busy and self._tried.get(key) != stamp:
                self._come(key, stamp, found[key], ready)
        for key in list(desired):
            if key not in found and key not in before and key not in self._busy and _may_go(key, found, ready):
                self._start(key, self._unload(key))

    def _come(self, key: _Key, stamp: Stamp, folder: Path, ready: Mapping[_Key, bool]) -> None:
        """Load a version that is new, or was refused and has changed since."""
        self._tried[key] = stamp
        if self._is_there(key, ready):
            logger.warning("%s version %d changed and is served as it was loaded: write a new version instead", *key)
        else:
            self._start(key, self._load(key, folder))

    def _is_there(self, key: _Key, ready: Mapping[_Key, bool]) -> bool:
        return key in self._desired.folders and ready.get(key, True)

    async def _load(self, key: _Key, folder: Path) -> None:
        logger.info("%s version %d is new and is loaded", *key)
        self._desired.add(*key, folder)
        await self._engines.load(*key, folder)

    async def _unload(self, key: _Key) -> None:
        logger.info("%s version %d is gone and is unloaded", *key)
        self._desired.remove(*key)
        self._tried.pop(key, None)
        await self._engines.unload(*key)

    def _start(self, key: _Key, work: Coroutine[Any, Any, None]) -> None:
        task = self._busy[key] = asyncio.create_task(work)

        def ended(_: "asyncio.Task[None]") -> None:
            del self._busy[key]
            if not task.cancelled() and (error := task.exception()) is not None:
                said = error.message if isinstance(error, LimelightError) else repr(error)
                logger.error("%s version %d was not changed: %s", *key, said)

        task.add_done_callback(ended)

    def _say(self, message: str) -> None:
        """Log what keeps the folder from being followed, once."""
        if message != self._said:
            logger.warning("%s", message)
            self._said = message


def _may_go(key: _Key, found: Folders, ready: Mapping[_Key, bool]) -> bool:
    """Tell whether a version that is gone is to be unloaded: the folder has none of its model any more, another one can
    answer, or this one cannot.
    """
    name, _ = key
    others = [other for other in found if other[0] == name]
    return not others or not ready.get(key, True) or any(ready.get(other, False) for other in others)


def _stamps(folders: Folders) -> dict[_Key, Stamp]:
    """Stamp every version that is complete enough to have a description."""
    found = {}
    for key, folder in folders.items():
        try:
            files = [(each.name, each.stat()) for each in folder.iterdir()]
        except OSError:
            continue  # it is being moved, or cannot be read
        if any(name == BUNDLE_FILE for name, _ in files):
            found[key] = frozenset((name, of.st_size, of.st_mtime_ns, of.st_ino) for name, of in files)
    return found
