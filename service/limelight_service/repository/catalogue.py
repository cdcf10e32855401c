"""Which versions of models there are, what of them can answer, and why the rest cannot.

Engines and frontends each keep a catalogue: an engine of models that it has loaded, a frontend of what it needs to
know of them. Lookups are dictionary accesses: no call takes longer for there being more models.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from limelight.base.suggestions import similar
from limelight_service.errors import ModelNotFoundError, ModelRefusedError, ModelUnavailableError
from limelight_service.repository.skipped import nothing_to_serve

# Names from callers are repeated to them up to here, and as many models are listed.
_LONGEST_NAME = 64
_MOST_LISTED = 20

M = TypeVar("M")


def everything(name: str) -> bool:
    """Let the caller know of every model."""
    return True


class State(Enum):
    """Whether a version of a model can answer."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class VersionStatus(Generic[M]):
    """The state of one version.

    reason: why it was refused, or is still loading, fit for callers (the log says more). model: once it is ready.
    """

    name: str
    version: int
    state: State
    reason: str = ""
    is_default: bool = False
    model: M | None = None


class Catalogue(Generic[M]):
    """Statuses by name and version. For one event loop.

    changes: of anything that `statuses` tells. changed: when the last was, by `time.monotonic`. is_complete: false
    while there may be versions that nobody has told of yet.
    """

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, VersionStatus[M]]] = {}
        self._default: dict[str, VersionStatus[M]] = {}  # version 0
        self._listeners: list[Callable[[], None]] = []
        self.is_complete = True
        self.changes = 0
        self.changed = time.monotonic()

    @property
    def is_ready(self) -> bool:
        """True when some model can answer."""
        return any(status.state is State.READY for status in self._default.values())

    def why_not_ready(self) -> str:
        """Say why no model can answer; empty where one can, or is still loading."""
        if not self._versions:
            return nothing_to_serve({}) if self.is_complete else ""
        statuses = self.statuses()
        if any(each.state is not State.FAILED for each in statuses):
            return ""
        first = statuses[0]
        more = f", and so were {len(statuses) - 1} more" if len(statuses) > 1 else ""
        return f"no model can answer: {first.name} version {first.version} was refused: {first.reason}{more}"

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a function after each change."""
        self._listeners.append(listener)

    def keep(self, status: VersionStatus[M]) -> None:
        """Set the status of a version."""
        self._versions.setdefault(status.name, {})[status.version] = status
        self._settle(status.name)

    def drop(self, name: str, version: int) -> None:
        """Forget a version."""
        del self._versions[name][version]
        self._settle(name)

    def get(self, name: str, version: int) -> VersionStatus[M] | None:
        """Give the status of exactly this version; None where there is none."""
        return self._versions.get(name, {}).get(version)

    def has(self, name: str) -> bool:
        """True where any version of a model is known."""
        return name in self._versions

    def resolve(self, name: str, version: int = 0, *, sees: Callable[[str], bool] = everything) -> VersionStatus[M]:
        """Find a version that can answer; version 0 is the highest that is ready.

        Args:
            sees: true for names that the caller may know of; the others do not exist for that caller.

        Raises:
            ModelNotFoundError: there is none; the message names what there is.
            ModelUnavailableError: it is loading, or the catalogue is not complete.
            ModelRefusedError: it was refused, with the reason.
        """
        status = self.status(name, version, sees=sees)
        if status.state is State.LOADING:
            why = f": {status.reason}" if status.reason else ""
            raise ModelUnavailableError(f"{status.name} version {status.version} is still being loaded{why}")
        if status.model is None:
            raise ModelRefusedError(f"{status.name} version {status.version} was refused: {status.reason}")
        return status

    def status(self, name: str, version: int = 0, *, sees: Callable[[str], bool] = everything) -> VersionStatus[M]:
        """Give the status of one version; 0 is the default, or the highest where none can answer.

        Raises: ModelNotFoundError naming what there is; ModelUnavailableError where the catalogue is not complete.
        """
        versions = self._versions.get(name) if sees(name) else None
        if versions is None:
            self.check_complete()
            seen = [each for each in self._versions if sees(each)]
            raise ModelNotFoundError(f"there is no model {short(name)}; there are: {_some(seen)}{similar(name, seen)}")
        status = versions.get(version) if version else self._default[name]
        if status is None:
            self.check_complete()
            raise ModelNotFoundError(f"{name} has no version {version}; there are: {_some(versions)}")
        return status

    def check_complete(self) -> None:
        """Raise ModelUnavailableError while there may be versions that nobody has told of yet."""
        if not self.is_complete:
            raise ModelUnavailableError("the server is starting, and its models are not known yet; try again soon")

    def statuses(self) -> list[VersionStatus[M]]:
        """Give every version, in order of name, then version."""
        ordered = (self._versions[name] for name in sorted(self._versions))
        return [versions[version] for versions in ordered for version in sorted(versions)]

    def _settle(self, name: str) -> None:
        """Settle which version of a model is its default, after a change."""
        self.changes += 1
        self.changed = time.monotonic()
        versions = self._versions[name]
        if not versions:
            del self._versions[name]
            self._default.pop(name, None)
        else:
            default = max((each.version for each in versions.values() if each.model is not None), default=0)
            for version, status in versions.items():
                if status.is_default is not (version == default):
                    versions[version] = replace(status, is_default=version == default)
            self._default[name] = versions[default or max(versions)]
        for listener in self._listeners:
            listener()


def no_version_in_repository(name: str, version: int) -> ModelNotFoundError:
    """Make the error for a version that the repository's folder lacks, or that the caller may not know of.

    version: 0 for any.
    """
    with_version = f" with a version {version}" if version else ""
    return ModelNotFoundError(f"the repository has no model {short(name)}{with_version}")


def short(name: str) -> str:
    """Quote a name as it may stand in a message."""
    return repr(name[:_LONGEST_NAME])


def _some(there: Iterable[object]) -> str:
    """List names or versions, as many as are of use in a message."""
    found = sorted(there)  # type: ignore[type-var]
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    return (", ".join(map(str, found[:_MOST_LISTED])) or "none") + more
