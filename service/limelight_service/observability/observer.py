"""The interface between the engine and metrics, of which the engine knows nothing."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self


class Stage(StrEnum):
    """A part of a row's or batch's way through the engine.

    QUEUE is observed for each row (admission until its batch starts); BATCH (padding and stacking) and COMPUTE (the
    runtime) for each batch, and for each decode step. PREPROCESS and ENCODE belong to the callers of the engine, for
    each request.
    """

    PREPROCESS = "preprocess"
    QUEUE = "queue"
    BATCH = "batch"
    COMPUTE = "compute"
    ENCODE = "encode"


class Rejection(StrEnum):
    """Why a requested row is not answered."""

    QUEUE_FULL = "queue_full"
    DEADLINE = "deadline"
    OVERLOAD = "overload"
    CANCELLED = "cancelled"
    STOPPING = "stopping"
    QUOTA = "quota"


# By model: rows that wait, and calls that have not ended.
Depths = Callable[[], Mapping[str, tuple[int, int]]]


@dataclass(frozen=True)
class WorkDone:
    """What the workers of a device have done, and have to do, in seconds of one worker.

    Attributes:
        workers: their number.
        busy: since the start, of all of them, runs under way included.
        unfilled: of these, seconds that full batches would have saved.
        waiting: an estimate for the rows that wait, and for what is left of those that generate.
    """

    workers: int
    busy: float
    unfilled: float
    waiting: float


class Observer(Protocol):
    """Receives everything that is worth counting.

    Methods are called from the event loop and from worker threads alike: they must be thread-safe, quick, and raise
    nothing. `model` is always the name of a model in the repository, never a name that a caller invented.
    """

    def stage(self, model: str, stage: Stage, seconds: float) -> None:
        """A stage took so many seconds."""

    def batch(self, model: str, rows: int, real_tokens: int, padding_tokens: int) -> None:
        """A batch of so many rows is about to run; tokens are places of the varying axes, those that only pad apart."""

    def watch(self, depths: Depths, work: Callable[[], WorkDone]) -> None:
        """Ask for the depths of queues, and the work of the workers, whenever they are read."""

    def rejected(self, reason: Rejection, rows: int) -> None:
        """So many rows will not be answered."""

    def overran(self, model: str) -> None:
        """A run took longer than it may, and was ended."""

    def not_finite(self, model: str) -> None:
        """A row got an error, since the model's outputs for it have NaN or infinity."""

    def model(self, name: str, version: int, *, ready: bool, digest: str, provider: str) -> None:
        """A version of a model was loaded, or refused (then without a digest)."""

    def gone(self, name: str, version: int, *, last: bool) -> None:
        """A version of a model was unloaded, or a refused one was forgotten. last: of that name."""


class Observed:
    """A runner that reports its stages to an observer."""

    _observer: Observer

    def uncounted(self) -> Self:
        """Give the same runner without an observer: a model's own check is no request, and in no figure of latency."""
        same = copy(self)
        same._observer = NullObserver()
        return same


class NullObserver:
    """Counts nothing."""

    def stage(self, model: str, stage: Stage, seconds: float) -> None:
        """Ignore it."""

    def batch(self, model: str, rows: int, real_tokens: int, padding_tokens: int) -> None:
        """Ignore it."""

    def watch(self, depths: Depths, work: Callable[[], WorkDone]) -> None:
        """Ignore it."""

    def rejected(self, reason: Rejection, rows: int) -> None:
        """Ignore it."""

    def overran(self, model: str) -> None:
        """Ignore it."""

    def not_finite(self, model: str) -> None:
        """Ignore it."""

    def model(self, name: str, version: int, *, ready: bool, digest: str, provider: str) -> None:
        """Ignore it."""

    def gone(self, name: str, version: int, *, last: bool) -> None:
        """Ignore it."""
