"""The errors of the service, beside those of bundles; `frontend.status` has their codes."""

from dataclasses import dataclass

from limelight_bundle.errors import InputError, LimelightError, OutOfRangeError, Path, TooLargeError


class ModelNotFoundError(LimelightError):
    """No such model or version; the message names what there is."""


class ModelRefusedError(LimelightError):
    """The model was refused when it was loaded; trying again does not help."""


class WrongModelError(LimelightError):
    """The model cannot do what is asked: `Generate` on a classifier."""


class TryLaterError(LimelightError):
    """Not now, but later, or elsewhere; `retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelUnavailableError(TryLaterError):
    """The model exists but cannot answer now: it is being loaded, which takes seconds, or the server stops."""

    def __init__(self, message: str, *, retry_after: float = 1.0) -> None:
        super().__init__(message, retry_after=retry_after)


class QueueFullError(TryLaterError):
    """Too much is waiting already."""


class QuotaError(TryLaterError):
    """The caller's token has had what it may have for now."""


class StoppingError(TryLaterError):
    """The server stops; another may answer, and so may its successor."""


class UnauthenticatedError(LimelightError):
    """Nobody knows who calls; `reason`, one of a few, is for metrics: missing, malformed, unknown, expired."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ForbiddenError(LimelightError):
    """The caller is known, and may not do this."""


class DeadlineError(LimelightError):
    """The caller's deadline passed before an answer was there."""


class ProviderError(LimelightError):
    """The execution provider asked for cannot be had."""


class InferenceError(LimelightError):
    """The runtime failed on this input; details are in the log, not in the message."""


class NotFiniteError(InferenceError):
    """The model's output for this input has NaN or infinity; the message names the output."""


class OverrunError(InferenceError):
    """The model took longer than a run may take, and was ended."""


class MemoryShortError(InferenceError):
    """A run needed more memory than there is."""


@dataclass(frozen=True)
class ErrorRecord:
    """An error as data, to be raised again in another process. kind: name of its class."""

    kind: str
    message: str
    path: Path = ()
    retry_after: float = 0.0


def record_of(error: LimelightError) -> ErrorRecord:
    """Write an error down."""
    path = error.path if isinstance(error, InputError) else ()
    retry_after = error.retry_after if isinstance(error, TryLaterError) else 0.0
    kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in _KINDS)
    return ErrorRecord(kind, error.message, path, retry_after)


def error_of(record: ErrorRecord) -> LimelightError:
    """Make the error that a record is of; of an unknown kind, an InferenceError."""
    kind = _KINDS.get(record.kind, InferenceError)
    if issubclass(kind, InputError):
        return kind(record.path, record.message)
    if issubclass(kind, TryLaterError):
        return kind(record.message, retry_after=record.retry_after)
    return kind(record.message)


# Every kind that crosses the boundary of a process.
_KINDS: dict[str, type[LimelightError]] = {
    each.__name__: each
    for each in (
        LimelightError,
        InputError,
        OutOfRangeError,
        TooLargeError,
        ModelNotFoundError,
        ModelRefusedError,
        ModelUnavailableError,
        WrongModelError,
        QueueFullError,
        StoppingError,
        DeadlineError,
        InferenceError,
        NotFiniteError,
        OverrunError,
        MemoryShortError,
    )
}
