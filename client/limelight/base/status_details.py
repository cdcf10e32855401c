"""Reads the details of an error, beside code and message: `google.rpc.Status` in `grpc-status-details-bin`."""

from dataclasses import dataclass

from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

METADATA_KEY = "grpc-status-details-bin"


@dataclass(frozen=True)
class FieldViolation:
    """A field of the request that is wrong."""

    field: str
    """Its path: `instances[0].inputs["text"]`."""
    description: str
    """Description of the fault."""


@dataclass(frozen=True)
class Details:
    """The details of an error; empty where it has none."""

    violations: tuple[FieldViolation, ...] = ()
    retry_after: float | None = None
    """Seconds to wait before the same call may succeed."""


def read(status: bytes) -> Details:
    """Read the details of a serialised `google.rpc.Status`. Broken ones are left out: they must not hide the error."""
    violations: list[FieldViolation] = []
    retry_after: float | None = None
    bad, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
    try:
        for detail in status_pb2.Status.FromString(status).details:
            if detail.Unpack(bad):
                violations += [FieldViolation(each.field, each.description) for each in bad.field_violations]
            elif detail.Unpack(retry):
                retry_after = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    except DecodeError:
        pass
    return Details(tuple(violations), retry_after)
