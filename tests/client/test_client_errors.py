"""Errors: made from the status of a call, with the details that its metadata carry."""

import subprocess
import sys

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

import limelight
from limelight.base import errors, status_details


def packed(*details: object) -> bytes:
    status = status_pb2.Status(code=3, message="no")
    for detail in details:
        status.details.add().Pack(detail)
    return status.SerializeToString()


def violations(*fields: str) -> error_details_pb2.BadRequest:
    make = error_details_pb2.BadRequest.FieldViolation
    return error_details_pb2.BadRequest(field_violations=[make(field=field, description="bad é") for field in fields])


def test_details_are_those_that_google_rpc_writes():
    path = 'instances[3].inputs["text"]'
    info = error_details_pb2.ErrorInfo(reason="R", domain="d", metadata={"k": "v"})
    read = status_details.read(packed(info, violations(path, "seed")))
    assert [each.field for each in read.violations] == [path, "seed"]
    assert read.violations[0].description == "bad é"
    assert read.retry_after is None


@given(st.integers(-(10**9), 10**9), st.integers(0, 999_999_999))
def test_the_delay_is_read_for_every_duration(seconds: int, nanos: int):
    nanos = -nanos if seconds < 0 else nanos
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=seconds, nanos=nanos))
    assert status_details.read(packed(retry)).retry_after == seconds + nanos / 1e9


@given(st.binary(max_size=64))
def test_broken_details_never_hide_the_error(noise: bytes):
    status_details.read(noise)
    status = status_pb2.Status(details=[any_pb2.Any(type_url="type.googleapis.com/google.rpc.BadRequest", value=noise)])
    status_details.read(status.SerializeToString())
    for cut in range(0, 40, 7):
        status_details.read(packed(violations("a"))[:cut])


def test_details_cut_short_are_no_details():
    whole = packed(violations("a"))
    assert status_details.read(whole).violations
    assert status_details.read(whole[:-2]) == status_details.Details()


def test_every_code_has_the_class_of_its_name():
    for kind in errors.Error.__subclasses__():
        assert kind.status is not None
        name = "".join(part.capitalize() for part in kind.status.name.split("_"))
        assert kind.__name__ == name
        assert getattr(limelight, name) is kind


def test_other_codes_are_plain_errors_with_their_code():
    class Call:
        code = staticmethod(lambda: grpc.StatusCode.ABORTED)
        details = staticmethod(lambda: None)
        trailing_metadata = staticmethod(lambda: None)

    error = errors.from_rpc(Call)
    assert type(error) is limelight.Error
    assert (error.code, str(error), error.field, error.retry_after) == (grpc.StatusCode.ABORTED, "aborted", None, None)


def test_the_client_needs_no_package_of_the_command_line_or_the_server():
    program = """
import limelight, sys
limelight.Client, limelight.AsyncClient, limelight.Error
wrong = {"typer", "rich", "PIL", "torch", "onnxruntime"} & set(sys.modules)
sys.exit(f"imported {wrong}" if wrong else 0)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
