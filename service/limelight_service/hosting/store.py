"""The models of one engine: loaded, kept while calls use them, and freed entirely afterwards."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from limelight_service.engine.model import Model
from limelight_service.engine.runtime.providers import Provider
from limelight_service.errors import ModelUnavailableError
from limelight_service.hosting.hosted import HostedModel
from limelight_service.observability.observer import NullObserver, Observer
from limelight_service.repository.catalogue import Catalogue, State, VersionStatus
from limelight_service.repository.folders import Folders
from limelight_service.repository.usage import Usage
from limelight_service.settings import Settings

logger = logging.getLogger(__name__)

_LOADERS = 32
_LOOK_SECONDS = 0.05
_LONGEST_AGAIN = 300.0  # seconds until a version that could not be checked is tried again

Status = VersionStatus[HostedModel]


@dataclass(frozen=True)
class Postponed:
    """A version that could not be loaded for a reason that may pass. why: fit for callers."""

    why: str


# Loads a version from a folder, on any thread; gives the reason where it is refused, or is to be tried again.
Load = Callable[[str, int, Path], HostedModel | Postponed | str]


class ModelStore:
    """Loads and unloads versions of models. Loading runs in threads; everything else is for the event loop.

    on_status, on_gone: called with each new status, and with each version that is dropped.
    released: waits until no frontend uses a version that is gone, before it is freed.
    """

    def __init__(
        self,
        settings: Settings,
        provider: Provider,
        load: Load,
        *,
        observer: Observer | None = None,
        again: float = 5.0,
    ) -> None:
        """Prepare the store; nothing is loaded.

        Args:
            load: `Loader.load`.
            again: seconds after which a version that could not be checked is tried again; twice as many each time.
        """
        self._again = again
        self._settings = settings
        self._provider = provider
        self._observer = observer or NullObserver()
        self._load_version = load
        self._usage: Usage[HostedModel] = Usage()
        self._pool = ThreadPoolExecutor(_LOADERS, "load")  # most threads only wait for a check
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: dict[tuple[str, int], HostedModel] = {}  # gone, and not released by every frontend yet
        self._forgetting: list[Callable[[Model], Awaitable[None]]] = []
        self.catalogue: Catalogue[HostedModel] = Catalogue()
        self.on_status: Callable[[Status], None] = lambda status: None
        self.on_gone: Callable[[str, int], None] = lambda name, version: None
        self.released: Callable[[str, int], Awaitable[None]] = _at_once

    def close(self) -> None:
        """Load nothing more."""
        for task in self._tasks:
            task.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def on_free(self, forget: Callable[[Model], Awaitable[None]]) -> None:
        """Await a function for each model that no call uses any more."""
        self._forgetting.append(forget)

    def expect(self, folders: Folders) -> None:
        """Tell from now on of versions that they are being loaded, before `load_until_useful` does it."""
        for name, version in folders:
            self._keep(VersionStatus(name, version, State.LOADING))

    async def load_until_useful(self, folders: Folders) -> None:
        """Begin to load versions; return once all are loaded or refused, or once some model can answer and none of
        the others has come as far for `load_wait_seconds`. Loading goes on.
        """
        loading = asyncio.gather(*(self._load(*key, folder) for key, folder in folders.items()))
        task = asyncio.ensure_future(_ended(loading))
        self._remember(task)
        wait, catalogue = self._settings.load_wait_seconds, self.catalogue
        catalogue.changed = time.monotonic()
        while not task.done():
            left = catalogue.changed + wait - time.monotonic()  # from the change itself, whenever it is looked at
            if left <= 0 and catalogue.is_ready:
                return
            await asyncio.wait([task], timeout=max(left, _LOOK_SECONDS))
        await task

    async def load(self, name: str, version: int, folder: Path) -> Status | None:
        """Read, check and load one version, in place of one that was refused; gives its status, None where it was
        unloaded meanwhile.

        Raises: ModelUnavailableError where it is loading or loaded.
        """
        known = self.catalogue.get(name, version)
        if known is not None and known.state is not State.FAILED:
            raise ModelUnavailableError(f"{name} version {version} is {known.state.value} already")
        self._keep(VersionStatus(name, version, State.LOADING))
        await self._load(name, version, folder)
        return self.catalogue.get(name, version)

    async def unload(self, name: str, version: int) -> None:
        """Take one version out: no call finds it any more, those that use it finish, and then all of it is freed.

        Raises: ModelNotFoundError; ModelUnavailableError while it is being loaded.
        """
        status = self.catalogue.status(name, version)
        if status.state is State.LOADING and not status.reason:  # a reason says that it waits for another try
            raise ModelUnavailableError(f"{name} version {status.version} is still being loaded")
        if status.model is not None:
            # Frontends that have not heard of it yet still hand calls on.
            self._leaving[name, status.version] = status.model
        self.catalogue.drop(name, status.version)
        self.on_gone(name, status.version)
        if status.model is not None:
            await self._free(status.model)
        if self.catalogue.get(name, status.version) is None:  # unless it was loaded again meanwhile
            self._observer.gone(name, status.version, last=not self.catalogue.has(name))
        logger.info("%s version %d is unloaded", name, status.version)

    def take_out(self, model: Model) -> None:
        """Refuse a model from now on whose runs keep taking too long."""
        status = self.catalogue.get(model.name, model.version)
        if status is None or status.model is None or status.model.model is not model:
            return
        seconds = self._settings.max_run_seconds
        reason = f"it was taken out: its runs kept taking longer than the {seconds:g} s that one may"
        logger.error("%s version %d: %s", model.name, model.version, reason)
        self._keep(VersionStatus(model.name, model.version, State.FAILED, reason))
        self._observer.gone(model.name, model.version, last=False)
        self._observer.model(model.name, model.version, ready=False, digest="", provider=self._provider.name)
        self._remember(asyncio.create_task(self._free(status.model)))

    def begin(self, name: str, version: int) -> HostedModel:
        """Find a model for a call, and keep it until `end`.

        Raises: ModelUnavailableError where it is gone, or not ready (a frontend that knew better is asked to retry).
        """
        status = self.catalogue.get(name, version)
        model = status.model if status is not None and status.model is not None else self._leaving.get((name, version))
        if model is None:
            raise ModelUnavailableError(f"{name} version {version} is not loaded now")
        self._usage.enter(model)
        return model

    def end(self, model: HostedModel) -> None:
        """End a call's use of a model."""
        self._usage.leave(model)

    def shrink(self) -> None:
        """Give back what the runtime keeps of the models' largest batches; for any thread."""
        for status in self.catalogue.statuses():
            if status.model is not None:
                status.model.model.shrink()

    def _keep(self, status: Status) -> None:
        self.catalogue.keep(status)
        self.on_status(status)

    def _remember(self, task: "asyncio.Task[None]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _free(self, model: HostedModel) -> None:
        key = model.model.name, model.model.version
        await self.released(*key)
        if self._leaving.get(key) is model:
            del self._leaving[key]
        await self._usage.unused(model)
        for forget in self._forgetting:
            await forget(model.model)

    async def _load(self, name: str, version: int, folder: Path, again: float | None = None) -> None:
        before = self.catalogue.get(name, version)
        loaded = await asyncio.get_running_loop().run_in_executor(self._pool, self._load_version, name, version, folder)
        if self.catalogue.get(name, version) is not before:  # it was unloaded meanwhile
            return
        if isinstance(loaded, Postponed):
            self._postpone(name, version, folder, loaded.why, again or self._again)
        elif isinstance(loaded, str):
            self._keep(VersionStatus(name, version, State.FAILED, loaded))
            self._observer.model(name, version, ready=False, digest="", provider=self._provider.name)
        else:
            self._keep(VersionStatus(name, version, State.READY, model=loaded))
            digest = loaded.model.digest
            self._observer.model(name, version, ready=True, digest=digest, provider=self._provider.name)

    def _postpone(self, name: str, version: int, folder: Path, why: str, seconds: float) -> None:
        """Try again to load a version later, until it is ready or refused, or unloaded."""
        reason = f"{why}; it is tried again in {seconds:g} s"
        logger.warning("%s version %d is not loaded yet: %s", name, version, reason)
        status: Status = VersionStatus(name, version, State.LOADING, reason)
        self._keep(status)

        async def again() -> None:
            kept = self.catalogue.get(name, version)
            await asyncio.sleep(seconds)
            if self.catalogue.get(name, version) is kept:
                await self._load(name, version, folder, min(2 * seconds, _LONGEST_AGAIN))

        self._remember(asyncio.create_task(again()))


async def _at_once(name: str, version: int) -> None:
    """Wait for nobody."""


async def _ended(loading: "asyncio.Future[list[None]]") -> None:
    await loading
