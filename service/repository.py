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
from service.loading import Loader, Postponed
from service.settings import Settings
from service.skipped import nothing_to_serve, tell_what_there_is

logger = logging.getLogger(__name__)

# What callers wrote is repeated to them up to here, and what there is listed.
_LONGEST_NAME = 64
_MOST_LISTED = 20
_LOADERS = 32
_LOOK_SECONDS = 0.05
# Seconds after which what could not be checked is tried again: twice as many each time, up to the longest.
_AGAIN, _LONGEST_AGAIN = 5.0, 300.0


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

    reason: why it was refused, or is still being loaded, fit for callers (the log says more). model: once it is ready.
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
        self._changed = time.monotonic()  # when the last of them was
        self._trying: set[asyncio.Task[None]] = set()
        self._forgetting: list[Callable[[Model], Awaitable[None]]] = []
        self._freeing: set[asyncio.Task[None]] = set()
        self._heeding: list[Callable[[], None]] = []

    @property
    def is_ready(self) -> bool:
        """True when some model can answer."""
        return any(status.state is State.READY for status in self._default.values())

    def why_not_ready(self) -> str:
        """Say why no model can answer; empty where one can, or is still being loaded."""
        if not self._versions:
            return nothing_to_serve({})
        statuses = self.statuses()
        if any(each.state is not State.FAILED for each in statuses):
            return ""
        first = statuses[0]
        more = f", and so were {len(statuses) - 1} more" if len(statuses) > 1 else ""
        return f"no model can answer: {first.name} version {first.version} was refused: {first.reason}{more}"

    async def find(self) -> None:
        """Scan the folder, where nobody has: from then on calls for what is in it are told that it is being loaded.

        Raises: LimelightError where the folder cannot be read.
        """
        found, path = self._folders, Path(self._settings.repository)
        if found is None:  # who looked for them has told of it
            found = await asyncio.to_thread(scan, path)
            await asyncio.to_thread(tell_what_there_is, path, found)
        self._found = found
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
        self._changed = time.monotonic()
        loading, wait = asyncio.create_task(self.load()), self._settings.load_wait_seconds
        try:
            while not loading.done():
                left = self._changed + wait - time.monotonic()  # from the change itself, whenever it is looked at
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
        if status.state is State.LOADING and not status.reason:  # or else it only waits to be tried again
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
            why = f": {status.reason}" if status.reason else ""
            raise ModelUnavailableError(f"{status.name} version {status.version} is still being loaded{why}")
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
        self._changed = time.monotonic()
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
        if isinstance(loaded, Postponed):
            self._postpone(name, version, folder, loaded.why, _AGAIN)
            return
        self._take(name, version, loaded)

    def _postpone(self, name: str, version: int, folder: Path, why: str, seconds: float) -> None:
        """Try again to load a version, later, until it is there or refused, or unloaded."""
        reason = f"{why}; it is tried again in {seconds:g} s"
        logger.warning("%s version %d is not loaded yet: %s", name, version, reason)
        status = VersionStatus(name, version, State.LOADING, reason)
        self._keep(status)
        trying = asyncio.create_task(self._try_again(status, folder, seconds))
        self._trying.add(trying)
        trying.add_done_callback(self._trying.discard)

    async def _try_again(self, status: VersionStatus, folder: Path, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._versions.get(status.name, {}).get(status.version) is not status:
            return
        loaded = await asyncio.to_thread(self._loader.load, status.name, status.version, folder)
        if self._versions.get(status.name, {}).get(status.version) is not status:
            return
        if isinstance(loaded, Postponed):
            self._postpone(status.name, status.version, folder, loaded.why, min(2 * seconds, _LONGEST_AGAIN))
        else:
            self._take(status.name, status.version, loaded)

    def _take(self, name: str, version: int, loaded: Model | str) -> None:
        """Take in what loading a version came to."""
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
