"""The service's errors; with those of `bundle.errors` they are all there are. `service.rpc.status` has their codes."""

from bundle.errors import LimelightError


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
    """What the model put out for this input has NaN or infinity; the message names it."""


class OverrunError(InferenceError):
    """The model took longer than a run may take, and was ended."""


class MemoryShortError(InferenceError):
    """A run needed more memory than there is."""
