"""What goes wrong with a call, as exceptions: one class a status code that a caller can act on."""

from typing import Any, ClassVar

import grpc

from limelight import status_details
from limelight.status_details import FieldViolation


class Error(Exception):
    """A call that failed. `str(error)` is the server's message."""

    status: ClassVar[grpc.StatusCode | None] = None

    def __init__(
        self,
        message: str,
        *,
        code: grpc.StatusCode | None = None,
        violations: tuple[FieldViolation, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """What the server, or gRPC itself, says."""
        self.code: grpc.StatusCode = code or self.status or grpc.StatusCode.UNKNOWN
        """The status code."""
        self.violations = violations
        """Every field of the request that is wrong, where the server names them."""
        self.retry_after = retry_after
        """Seconds to wait before trying again, where the server says."""

    @property
    def field(self) -> str | None:
        """Path of the first field that is wrong, such as `instances[0].inputs["text"]`; None where none is named."""
        return self.violations[0].field if self.violations else None


class InvalidArgument(Error):
    """The request is wrong whatever the server's state; `field` says where."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class InputError(InvalidArgument, ValueError):
    """Something that cannot be sent, found before anything was: `field` says what, `str(error)` where in it."""


class OutOfRange(Error):
    """A value is past what the model allows; `field` says which."""

    status = grpc.StatusCode.OUT_OF_RANGE


class NotFound(Error):
    """There is no such model or version."""

    status = grpc.StatusCode.NOT_FOUND


class FailedPrecondition(Error):
    """The model cannot do this, or is not loaded."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class ResourceExhausted(Error):
    """The server is full (`retry_after` says when to come back), or an answer is larger than allowed."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class DeadlineExceeded(Error):
    """The answer did not come within the call's `timeout`."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class Unavailable(Error):
    """No server answers, after all attempts."""

    status = grpc.StatusCode.UNAVAILABLE


class Cancelled(Error):
    """The call was cancelled."""

    status = grpc.StatusCode.CANCELLED


class Unauthenticated(Error):
    """The server wants credentials."""

    status = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(Error):
    """The server refuses these credentials."""

    status = grpc.StatusCode.PERMISSION_DENIED


class Unimplemented(Error):
    """The server has no such method."""

    status = grpc.StatusCode.UNIMPLEMENTED


class Internal(Error):
    """A fault of the server, or an answer that makes no sense."""

    status = grpc.StatusCode.INTERNAL


_BY_CODE = {kind.status: kind for kind in Error.__subclasses__()}


def from_rpc(error: Any) -> Error:
    """The exception for a failed call: a `grpc.RpcError` of the synchronous or the asynchronous interface."""
    code: grpc.StatusCode = error.code()
    message = error.details() or code.name.lower().replace("_", " ")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "message larger than max" in message:
        message += "; ask for less of the attention, or raise the client's max_response_bytes"
    details = status_details.Details()
    for key, value in error.trailing_metadata() or ():
        if key == status_details.METADATA_KEY and isinstance(value, bytes):
            details = status_details.read(value)
    kind = _BY_CODE.get(code, Error)
    return kind(message, code=code, violations=details.violations, retry_after=details.retry_after)
