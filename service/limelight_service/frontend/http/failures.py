"""From statuses to HTTP: one table, and errors that HTTP has a status of its own for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from limelight_bundle.errors import InputError, LimelightError, TooLargeError
from limelight_service.errors import DeadlineError
from limelight_service.frontend.status import Status

# As the comments of google/rpc/code.proto have it.
_HTTP = {
    grpc.StatusCode.OK: 200,
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ABORTED: 409,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.CANCELLED: 499,
    grpc.StatusCode.DATA_LOSS: 500,
    grpc.StatusCode.UNKNOWN: 500,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
}
# A client that gets 429 sends the same again later, which does not help where it is too large.
_OF_REASON = {"TOO_LARGE": 413}


class MediaTypeError(InputError):
    """A request whose body has a media type or an encoding that is not read here."""


class VersionError(InputError):
    """A request in a version of HTTP that is not spoken here."""


class HeadTooLargeError(TooLargeError):
    """A request of too many headers."""


class SlowUploadError(DeadlineError):
    """A request that took too long to arrive."""


_OF_KIND: tuple[tuple[type[LimelightError], int], ...] = (
    (MediaTypeError, 415),
    (VersionError, 505),
    (HeadTooLargeError, 431),
    (SlowUploadError, 408),
)


@dataclass(frozen=True)
class Failure:
    """The response to an error. status: HTTP's. details: of `google.rpc.Status`, as JSON."""

    status: int
    code: grpc.StatusCode
    message: str
    details: list[Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Give the JSON of the error."""
        return {
            "code": self.status,
            "status": self.code.name,
            "message": self.message,
            "details": self.details,
        }

    def plain_body(self) -> dict[str, Any]:
        """Give the JSON of the Open Inference Protocol: the message alone as `error`, the rest beside it."""
        return {"error": self.message, **{name: each for name, each in self.body().items() if name != "message"}}


def body_at(path: str, failure: Failure) -> dict[str, Any]:
    """Give the JSON of an error as the protocol of a path tells errors."""
    return failure.plain_body() if path.startswith("/v2/") or path == "/v2" else {"error": failure.body()}


def failure_of(error: BaseException, status: Status) -> Failure:
    """Give what a caller is told of an error whose status is known."""
    rich = status_pb2.Status.FromString(status.details)
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    headers: dict[str, str] = {}
    for each in rich.details:
        each.Unpack(info)
        if each.Unpack(retry):
            headers["retry-after"] = str(math.ceil(retry.retry_delay.ToTimedelta().total_seconds()))
    if status.code is grpc.StatusCode.UNAUTHENTICATED:
        headers["www-authenticate"] = "Bearer"
    code = next((code for kind, code in _OF_KIND if isinstance(error, kind)), 0)
    code = code or _OF_REASON.get(info.reason, _HTTP[status.code])
    details = [json_format.MessageToDict(each) for each in rich.details]
    return Failure(code, status.code, status.message, details, headers)
