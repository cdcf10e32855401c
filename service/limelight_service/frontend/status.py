"""From errors to gRPC statuses: one table, with rich details for programs (`google.rpc.Status`)."""

from dataclasses import dataclass

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from limelight_bundle.errors import InputError, LimelightError, OutOfRangeError, TooLargeError
from limelight_service.errors import (
    DeadlineError,
    ForbiddenError,
    InferenceError,
    MemoryShortError,
    ModelNotFoundError,
    ModelRefusedError,
    ModelUnavailableError,
    NotFiniteError,
    QueueFullError,
    QuotaError,
    StoppingError,
    TryLaterError,
    UnauthenticatedError,
    WrongModelError,
)

DETAILS_KEY = "grpc-status-details-bin"
REQUEST_ID_KEY = "x-request-id"
_PUSHBACK_KEY = "grpc-retry-pushback-ms"  # a client that retries by its service configuration goes by it
DOMAIN = "limelight"
# Clients drop trailers past 8 KiB. A message goes into them three times, once percent-encoded (three bytes for one).
_LONGEST_MESSAGE = 800
_LONGEST_FIELD = 240


# The first class that fits counts: kinds of an error stand before the error itself.
_TABLE: tuple[tuple[type[LimelightError], grpc.StatusCode, str], ...] = (
    (OutOfRangeError, grpc.StatusCode.OUT_OF_RANGE, "OUT_OF_RANGE"),
    (TooLargeError, grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_LARGE"),
    (InputError, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT"),
    (ModelNotFoundError, grpc.StatusCode.NOT_FOUND, "MODEL_NOT_FOUND"),
    (ModelUnavailableError, grpc.StatusCode.UNAVAILABLE, "MODEL_UNAVAILABLE"),
    (ModelRefusedError, grpc.StatusCode.FAILED_PRECONDITION, "MODEL_REFUSED"),
    (WrongModelError, grpc.StatusCode.FAILED_PRECONDITION, "WRONG_MODEL"),
    (QueueFullError, grpc.StatusCode.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
    (QuotaError, grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA"),
    (StoppingError, grpc.StatusCode.UNAVAILABLE, "STOPPING"),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"),
    (ForbiddenError, grpc.StatusCode.PERMISSION_DENIED, "FORBIDDEN"),
    (DeadlineError, grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE"),
    (MemoryShortError, grpc.StatusCode.RESOURCE_EXHAUSTED, "OUT_OF_MEMORY"),
    # Any caller can bring it about, with numbers that are allowed: nothing is wrong with the server, and to try again
    # is of no use.
    (NotFiniteError, grpc.StatusCode.OUT_OF_RANGE, "NOT_FINITE"),
    (InferenceError, grpc.StatusCode.INTERNAL, "INFERENCE_FAILED"),
)


@dataclass(frozen=True)
class Status:
    """A gRPC status. details: serialized `google.rpc.Status`. trailing: metadata, the details among it."""

    code: grpc.StatusCode
    message: str
    details: bytes
    trailing: tuple[tuple[str, str | bytes], ...]


class StatusError(Exception):
    """A call ends with a status that was made elsewhere, where whatever has to be logged of it was."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def status_of(error: Exception, request_id: str) -> Status:
    """Turn an error into a status; of one that nobody foresaw, only the request's id is told."""
    if isinstance(error, StatusError):
        return error.status
    for kind, code, reason in _TABLE:
        if isinstance(error, kind):
            return _status(code, _words(error), reason, request_id, error)
    message = f"something went wrong in the server; its log says what under request {request_id}"
    return _status(grpc.StatusCode.INTERNAL, message, "INTERNAL", request_id, None)


def _words(error: LimelightError) -> str:
    if isinstance(error, InputError):
        field = _short(error.field, _LONGEST_FIELD)
        return _short(f"{field} {error.message}" if field else error.message, _LONGEST_MESSAGE)
    return _short(error.message, _LONGEST_MESSAGE)


def _status(code: grpc.StatusCode, message: str, reason: str, request_id: str, error: LimelightError | None) -> Status:
    number: int = code.value[0]
    rich = status_pb2.Status(code=number, message=message)
    _pack(rich, error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata={"request_id": request_id}))
    if isinstance(error, InputError):
        field = _short(error.field, _LONGEST_FIELD)
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=field, description=_short(error.message, _LONGEST_MESSAGE)
        )
        _pack(rich, error_details_pb2.BadRequest(field_violations=[violation]))
    trailing: list[tuple[str, str | bytes]] = []
    if isinstance(error, TryLaterError):
        milliseconds = max(1, round(error.retry_after * 1000))
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(milliseconds)
        _pack(rich, error_details_pb2.RetryInfo(retry_delay=delay))
        if isinstance(error, StoppingError | ModelUnavailableError):
            trailing.append((_PUSHBACK_KEY, str(milliseconds)))
    details = rich.SerializeToString()
    return Status(code, message, details, (*trailing, (DETAILS_KEY, details)))


def _pack(rich: status_pb2.Status, detail: object) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)  # type: ignore[arg-type]
    rich.details.append(packed)


def _short(text: str, limit: int) -> str:
    """Cut a text to so many bytes of UTF-8: names that a caller chose can be as long as a request."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore") + "…"
