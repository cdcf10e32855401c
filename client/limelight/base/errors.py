"""Errors of calls: one class for each status code."""

from typing import Any, ClassVar

import grpc

from limelight.base import status_details
from limelight.base.printing import printable
from limelight.base.status_details import FieldViolation


class Error(Exception):
    """A failed call. `str(error)` is the server's message."""

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
        """Message of the server, or of gRPC."""
        self.code: grpc.StatusCode = code or self.status or grpc.StatusCode.UNKNOWN
        """The status code."""
        self.violations = violations
        """Every field of the request that is wrong, where the server names them."""
        self.retry_after = retry_after
        """Seconds to wait before trying again, where the server says."""

    @property
    def field(self) -> str | None:
        """Path of the first invalid field, such as `instances[0].inputs["text"]`; None if not given."""
        return self.violations[0].field if self.violations else None


class InvalidArgument(Error):
    """The request is invalid; `field` is the path of the invalid field."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class InputError(InvalidArgument, ValueError):
    """A value cannot be sent. Raised before anything is sent; `field` names the value, and the message the position in
    it.
    """


class OutOfRange(Error):
    """A value is outside the model's range; `field` is its path."""

    status = grpc.StatusCode.OUT_OF_RANGE


class NotFound(Error):
    """There is no such model or version."""

    status = grpc.StatusCode.NOT_FOUND


class FailedPrecondition(Error):
    """The model does not support the request, or is not loaded."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class ResourceExhausted(Error):
    """The server is overloaded (retry after `retry_after`), or an answer exceeds a limit."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class DeadlineExceeded(Error):
    """The call did not complete within its `timeout`."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


class Unavailable(Error):
    """No server answered after all attempts."""

    status = grpc.StatusCode.UNAVAILABLE


class Cancelled(Error):
    """The call was cancelled."""

    status = grpc.StatusCode.CANCELLED


class Unauthenticated(Error):
    """The server requires valid credentials."""

    status = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(Error):
    """The credentials do not permit the call."""

    status = grpc.StatusCode.PERMISSION_DENIED


class Unimplemented(Error):
    """The server does not have the method."""

    status = grpc.StatusCode.UNIMPLEMENTED


class Internal(Error):
    """The server failed, or its response is inconsistent."""

    status = grpc.StatusCode.INTERNAL


_BY_CODE = {kind.status: kind for kind in Error.__subclasses__()}


def from_rpc(error: Any) -> Error:
    """Convert a `grpc.RpcError` of the synchronous or asynchronous interface."""
    code: grpc.StatusCode = error.code()
    message = printable(error.details() or "") or code.name.lower().replace("_", " ")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "message larger than max" in message:
        message += "; ask for less of the attention, or raise the client's max_response_bytes"
    if "are allowed in one call" in message:
        message += "; predict_many and attend_many send any number in several calls"
    details = status_details.Details()
    for key, value in error.trailing_metadata() or ():
        if key == status_details.METADATA_KEY and isinstance(value, bytes):
            details = status_details.read(value)
    kind = _BY_CODE.get(code, Error)
    return kind(message, code=code, violations=details.violations, retry_after=details.retry_after)
