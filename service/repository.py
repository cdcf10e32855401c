"""The folder of models: what is in it, what of it can answer, and why the rest cannot."""

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from bundle.errors import BundleError, LimelightError
from bundle.names import is_model_name, is_version
from bundle.reader import read_bundle
from service.engine.model import Model, open_model
from service.engine.observer import NullObserver, Observer
from service.engine.providers import Provider
from service.engine.selftest import check_samples
from service.errors import ModelNotFoundError, ModelRefusedError, ModelUnavailableError
from service.settings import Settings, available_cores

logger = logging.getLogger(__name__)

# What callers wrote is repeated to them up to here.
_LONGEST_NAME = 64


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


class Repository:
    """Models by name and version. Loading runs in threads; everything else is for the event loop."""

    def __init__(self, settings: Settings, provider: Provider, *, observer: Observer | None = None) -> None:
        self._settings = settings
        self._provider = provider
        self._observer = observer or NullObserver()
        self._statuses: dict[tuple[str, int], VersionStatus] = {}
        self._models: dict[tuple[str, int], Model] = {}

    @property
    def is_ready(self) -> bool:
        """True when some model can answer."""
        return bool(self._models)

    async def load(self) -> None:
        """Scan the folder, then read, load and check every version, several at a time.

        What is refused is logged and keeps its reason; it does not stop the others. The event loop goes on meanwhile
        (ONNX Runtime makes a session without the interpreter's lock but for moments: 27 ms of work stopped another
        thread for 4). Raises: LimelightError where the folder cannot be read.
        """
        folders = await asyncio.to_thread(scan, Path(self._settings.repository))
        for name, version in folders:
            self._statuses[name, version] = VersionStatus(name, version, State.LOADING)
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(max(2, available_cores()), "load") as pool:

            async def load_one(name: str, version: int, folder: Path) -> None:
                loaded = await loop.run_in_executor(pool, self._load, name, version, folder)
                self._keep(name, version, loaded)

            await asyncio.gather(*(load_one(*key, folder) for key, folder in folders.items()))

    def resolve(self, name: str, version: int = 0) -> Model:
        """Find a model that can answer; version 0 is the highest that loaded.

        Raises: ModelNotFoundError naming what there is; ModelUnavailableError while a version is loading;
        ModelRefusedError with the reason where it was refused.
        """
        status = self.status(name, version)
        if status.state is State.LOADING:
            raise ModelUnavailableError(f"{status.name} version {status.version} is still being loaded")
        if status.model is None:
            raise ModelRefusedError(f"{status.name} version {status.version} was refused: {status.reason}")
        return status.model

    def status(self, name: str, version: int = 0) -> VersionStatus:
        """Tell about one version; 0 is the default, or the highest where none can answer.

        Raises: ModelNotFoundError naming what there is.
        """
        versions = {key[1]: self._status(*key) for key in self._statuses if key[0] == name}
        if not versions:
            names = ", ".join(sorted({key[0] for key in self._statuses})) or "none"
            raise ModelNotFoundError(f"there is no model {name[:_LONGEST_NAME]!r}; there are: {names}")
        if version == 0:
            return next((each for each in versions.values() if each.is_default), versions[max(versions)])
        if version not in versions:
            there = ", ".join(map(str, sorted(versions)))
            raise ModelNotFoundError(f"{name} has no version {version}; there are: {there}")
        return versions[version]

    def statuses(self) -> list[VersionStatus]:
        """Tell about every version, in order of name, then version."""
        return [self._status(*key) for key in sorted(self._statuses)]

    def _status(self, name: str, version: int) -> VersionStatus:
        status = self._statuses[name, version]
        default = max((key[1] for key in self._models if key[0] == name), default=0)
        return replace(status, is_default=version == default)

    def _load(self, name: str, version: int, path: Path) -> Model | str:
        """In a thread: load and check one version; gives why not where it is refused."""
        started = time.monotonic()
        try:
            folder = read_bundle(path)
            model = open_model(folder, self._provider, self._settings, self._observer)
            check_samples(model, folder)
        except LimelightError as error:
            logger.error("%s version %d is refused: %s (%s)", name, version, error.message, path)
            return error.message
        except Exception as error:
            logger.error("%s version %d is refused (%s)", name, version, path, exc_info=error)
            return "it could not be loaded; the server's log says why"
        logger.info("%s version %d is ready after %.2f s", name, version, time.monotonic() - started)
        return model

    def _keep(self, name: str, version: int, loaded: Model | str) -> None:
        provider = self._provider.name
        if isinstance(loaded, str):
            self._statuses[name, version] = VersionStatus(name, version, State.FAILED, loaded)
            self._observer.model(name, version, ready=False, digest="", provider=provider)
        else:
            self._models[name, version] = loaded
            self._statuses[name, version] = VersionStatus(name, version, State.READY, model=loaded)
            self._observer.model(name, version, ready=True, digest=loaded.digest, provider=provider)


def scan(repository: Path) -> dict[tuple[str, int], Path]:
    """Find REPOSITORY/<model>/<version>/ by the strict pattern of names; other entries are no models.

    Raises: BundleError where the folder itself cannot be read.
    """
    folders: dict[tuple[str, int], Path] = {}
    try:
        for model in sorted(repository.iterdir()):
            if not model.is_dir() or model.is_symlink() or not is_model_name(model.name):
                logger.debug("%s is no model", model)
                continue
            for version in model.iterdir():
                if version.is_dir() and is_version(version.name):
                    folders[model.name, int(version.name)] = version
    except OSError as error:
        raise BundleError(f"the repository cannot be read: {error.strerror}") from error
    return folders
