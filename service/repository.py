"""The folder of models: what is in it, what of it can answer, and why the rest cannot."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from service.checking.checker import Checks
from service.engine.model import Model
from service.engine.observer import NullObserver, Observer
from service.engine.providers import Provider
from service.errors import ModelNotFoundError, ModelRefusedError, ModelUnavailableError
from service.folders import Folders, scan
from service.loading import Loader
from service.settings import Settings

logger = logging.getLogger(__name__)

# What callers wrote is repeated to them up to here, and what there is listed.
_LONGEST_NAME = 64
_MOST_LISTED = 20
_LOADERS = 32
_LOOK_SECONDS = 0.05


def _everything(name: str) -> bool:
    """Let whoever asks know of every model."""
    return True


class State(Enum):
    """Whether a version of a model can answer."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class VersionStatus:
    """What is known of one version.

    reason: why it was refused, fit for callers (the log says more). model: once it is ready.
    """

    name: str
    version: int
    state: State
    reason: str = ""
    is_default: bool = False
    model: Model | None = None


@dataclass
class _Users:
    """The calls that use a model. none: set once the last one ended."""

    count: int = 0
    none: asyncio.Event = field(default_factory=asyncio.Event)


class Repository:
    """Models by name and version. Loading runs in threads; everything else is for the event loop.

    What calls look up is kept, not searched: nothing that a call does takes longer for there being more models.
    """

    def __init__(
        self,
        settings: Settings,
        provider: Provider,
        checks: Checks,
        *,
        observer: Observer | None = None,
        folders: Folders | None = None,
        on_lane: Callable[[Callable[[], None]], None] = lambda function: function(),
    ) -> None:
        """Prepare it; nothing is loaded. folders: of the versions there are; None to look for them. on_lane: as
        `Loader` has it.
        """
        self._settings = settings
        self._provider = provider
        self._observer = observer or NullObserver()
        self._loader = Loader(settings, provider, checks, self._observer, on_lane)
        self._folders = folders
        self._found: Folders | None = None
        self._versions: dict[str, dict[int, VersionStatus]] = {}
        self._default: dict[str, VersionStatus] = {}  # what version 0 is
        self._users: dict[Model, _Users] = {}
        self.changes = 0  # of anything that `statuses` tells
        self._forgetting: list[Callable[[Model], Awaitable[None]]] = []
        self._freeing: set[asyncio.Task[None]] = set()
        self._heeding: list[Callable[[], None]] = []

    @property
    def is_ready(self) -> bool:
        """True when some model can answer."""
        return any(status.state is State.READY for status in self._default.values())

    async def find(self) -> None:
        """Scan the folder, where nobody has: from then on calls for what is in it are told that it is being loaded.

        Raises: LimelightError where the folder cannot be read.
        """
        found = self._folders
        self._found = await asyncio.to_thread(scan, Path(self._settings.repository)) if found is None else found
        for name, version in self._found:
            self._keep(VersionStatus(name, version, State.LOADING))

    async def load(self) -> None:
        """Check and load every version that was found, several at a time; scan the folder first, where nobody has.

        What is refused is logged and keeps its reason; it does not stop the others. The event loop goes on meanwhile
        (ONNX Runtime makes a session without the interpreter's lock but for moments: 27 ms of work stopped another
        thread for 4). Raises: LimelightError where the folder cannot be read.
        """
        if self._found is None:
            await self.find()
        folders, self._found = self._found or {}, None
        # Most threads only wait for a check: so many that bundles which are held up there hold up no others.
        pool = ThreadPoolExecutor(_LOADERS, "load")
        try:
            await asyncio.gather(*(self._load_in(pool, *key, folder) for key, folder in folders.items()))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    async def load_until_useful(self) -> "asyncio.Task[None]":
        """Begin to load everything; returns once all is loaded or refused, or once some model can answer and none of
        the others has come as far for `load_wait_seconds`. Gives the task, which goes on.

        Raises: LimelightError where the folder cannot be read.
        """
        loading, wait = asyncio.create_task(self.load()), self._settings.load_wait_seconds
        known, since = self.changes, time.monotonic()
        try:
            while not loading.done():
                if known != self.changes:
                    known, since = self.changes, time.monotonic()
                left = since + wait - time.monotonic()
                if left <= 0 and self.is_ready:
                    return loading
                await asyncio.wait([loading], timeout=max(left, _LOOK_SECONDS))
            await loading
        except BaseException:
            loading.cancel()
            raise
        return loading

    async def load_version(self, name: str, version: int) -> VersionStatus:
        """Read, load and check one version, which was not there when the folder was scanned, or was unloaded since.

        Raises: ModelNotFoundError where the folder has none; ModelUnavailableError where it is loading or loaded.
        """
        if version in self._versions.get(name, {}):
            raise ModelUnavailableError(f"{name} version {version} is there already")
        folder = (await asyncio.to_thread(scan, Path(self._settings.repository))).get((name, version))
        if folder is None:
            raise ModelNotFoundError(f"the repository has no model {_short(name)} with a version {version}")
        self._keep(VersionStatus(name, version, State.LOADING))
        await self._load_in(None, name, version, folder)
        return self.status(name, version)

    async def unload(self, name: str, version: int) -> None:
        """Take one version out: no call finds it any more, those that use it finish, and then all of it is freed.

        Raises: ModelNotFoundError; ModelUnavailableError while it is being loaded.
        """
        status = self.status(name, version)
        if status.state is State.LOADING:
            raise ModelUnavailableError(f"{name} version {status.version} is still being loaded")
        self._drop(status)
        if status.model is not None:
            await self._free(status.model)
        if status.version not in self._versions.get(name, {}):  # unless it was loaded again meanwhile
            self._observer.gone(name, status.version, last=name not in self._versions)
        logger.info("%s version %d is unloaded", name, status.version)

    def take_out(self, model: Model) -> None:
        """Let no call find a model any more whose runs do not end; it is told like one that was refused."""
        status = self._versions.get(model.name, {}).get(model.version)
        if status is None or status.model is not model:
            return
        seconds = self._settings.max_run_seconds
        reason = f"it was taken out: its runs kept taking longer than the {seconds:g} s that one may"
        logger.error("%s version %d: %s", model.name, model.version, reason)
        self._keep(VersionStatus(model.name, model.version, State.FAILED, reason))
        self._observer.gone(model.name, model.version, last=False)
        self._observer.model(model.name, model.version, ready=False, digest="", provider=self._provider.name)
        freeing = asyncio.create_task(self._free(model))
        self._freeing.add(freeing)
        freeing.add_done_callback(self._freeing.discard)

    def on_unload(self, forget: Callable[[Model], Awaitable[None]]) -> None:
        """Have something told of each model that nobody uses any more, so that it lets go of it."""
        self._forgetting.append(forget)

    def on_change(self, heed: Callable[[], None]) -> None:
        """Have something called after each change of what can answer."""
        self._heeding.append(heed)

    @contextmanager
    def use(self, name: str, version: int = 0, *, sees: Callable[[str], bool] = _everything) -> Iterator[Model]:
        """Find a model that can answer and keep it for the length of a block; it is not freed before.

        Raises: what `resolve` raises.
        """
        model = self.resolve(name, version, sees=sees)
        users = self._users.setdefault(model, _Users())
        users.count += 1
        try:
            yield model
        finally:
            users.count -= 1
            if not users.count:
                del self._users[model]
                users.none.set()

    def resolve(self, name: str, version: int = 0, *, sees: Callable[[str], bool] = _everything) -> Model:
        """Find a model that can answer; version 0 is the highest that loaded. sees: as for `status`.

        Raises: ModelNotFoundError naming what there is; ModelUnavailableError while a version is loading;
        ModelRefusedError with the reason where it was refused.
        """
        status = self.status(name, version, sees=sees)
        if status.state is State.LOADING:
            raise ModelUnavailableError(f"{status.name} version {status.version} is still being loaded")
        if status.model is None:
            raise ModelRefusedError(f"{status.name} version {status.version} was refused: {status.reason}")
        return status.model

    def status(self, name: str, version: int = 0, *, sees: Callable[[str], bool] = _everything) -> VersionStatus:
        """Tell about one version; 0 is the default, or the highest where none can answer.

        sees: true for the names that whoever asks may know of; all others are not there for them.
        Raises: ModelNotFoundError naming what there is.
        """
        versions = self._versions.get(name) if sees(name) else None
        if versions is None:
            known = _some([each for each in self._versions if sees(each)])
            raise ModelNotFoundError(f"there is no model {_short(name)}; there are: {known}")
        status = versions.get(version) if version else self._default[name]
        if status is None:
            raise ModelNotFoundError(f"{name} has no version {version}; there are: {_some(versions)}")
        return status

    def statuses(self) -> list[VersionStatus]:
        """Tell about every version, in order of name, then version."""
        ordered = (self._versions[name] for name in sorted(self._versions))
        return [versions[version] for versions in ordered for version in sorted(versions)]

    def shrink(self) -> None:
        """Give back what the runtime has kept of the models' largest batches; for any thread."""
        for versions in list(self._versions.values()):
            for status in list(versions.values()):
                if status.model is not None:
                    status.model.shrink()

    def _keep(self, status: VersionStatus) -> None:
        self._versions.setdefault(status.name, {})[status.version] = status
        self._settle(status.name)

    def _drop(self, status: VersionStatus) -> None:
        del self._versions[status.name][status.version]
        self._settle(status.name)

    def _settle(self, name: str) -> None:
        """Settle which version of a model is its default, after a change."""
        self.changes += 1
        versions = self._versions[name]
        if not versions:
            del self._versions[name], self._default[name]
        else:
            default = max((each.version for each in versions.values() if each.model is not None), default=0)
            for version, status in versions.items():
                if status.is_default is not (version == default):
                    versions[version] = replace(status, is_default=version == default)
            self._default[name] = versions[default or max(versions)]
        for heed in self._heeding:
            heed()

    async def _free(self, model: Model) -> None:
        users = self._users.get(model)
        if users is not None:
            await users.none.wait()
        for forget in self._forgetting:
            await forget(model)

    async def _load_in(self, pool: ThreadPoolExecutor | None, name: str, version: int, folder: Path) -> None:
        loop = asyncio.get_running_loop()
        loaded = await loop.run_in_executor(pool, self._loader.load, name, version, folder)
        digest = ""
        if isinstance(loaded, str):
            self._keep(VersionStatus(name, version, State.FAILED, loaded))
        else:
            self._keep(VersionStatus(name, version, State.READY, model=loaded))
            digest = loaded.digest
        self._observer.model(name, version, ready=bool(digest), digest=digest, provider=self._provider.name)


def _short(name: str) -> str:
    return repr(name[:_LONGEST_NAME])


def _some(there: Iterable[object]) -> str:
    """List what there is, as far as it is of use in a message."""
    found = sorted(there)  # type: ignore[type-var]
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    return (", ".join(map(str, found[:_MOST_LISTED])) or "none") + more
