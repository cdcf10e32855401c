"""The code, the words and the details that each error becomes."""

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from limelight_bundle.errors import BundleError, InputError, LimelightError, OutOfRangeError, TooLargeError
from limelight_service import errors
from limelight_service.frontend.status import status_of


def details(error: Exception) -> tuple[status_pb2.Status, dict[str, any_pb2.Any]]:
    rich = status_pb2.Status.FromString(status_of(error, "id-1").details)
    return rich, {each.TypeName().rsplit(".", 1)[-1]: each for each in rich.details}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("a", "is wrong"), "INVALID_ARGUMENT"),
        (OutOfRangeError("a", "is wrong"), "OUT_OF_RANGE"),
        (TooLargeError("a", "is wrong"), "RESOURCE_EXHAUSTED"),
        (errors.ModelNotFoundError("no such model"), "NOT_FOUND"),
        (errors.ModelUnavailableError("not now"), "UNAVAILABLE"),
        (errors.ModelRefusedError("broken"), "FAILED_PRECONDITION"),
        (errors.WrongModelError("not that"), "FAILED_PRECONDITION"),
        (errors.QueueFullError("full", retry_after=0.25), "RESOURCE_EXHAUSTED"),
        (errors.QuotaError("had it", retry_after=0.25), "RESOURCE_EXHAUSTED"),
        (errors.StoppingError("going", retry_after=0.5), "UNAVAILABLE"),
        (errors.UnauthenticatedError("who?", reason="missing"), "UNAUTHENTICATED"),
        (errors.ForbiddenError("not you"), "PERMISSION_DENIED"),
        (errors.DeadlineError("late"), "DEADLINE_EXCEEDED"),
        (errors.InferenceError("failed"), "INTERNAL"),
    ],
)
def test_each_error_has_its_code_in_the_status_and_in_its_details(error: Exception, code: str) -> None:
    status = status_of(error, "id-1")
    rich, packed = details(error)
    assert status.code is grpc.StatusCode[code]
    assert rich.code == status.code.value[0]
    assert rich.message == status.message
    info = error_details_pb2.ErrorInfo()
    assert packed["ErrorInfo"].Unpack(info)
    assert (info.domain, info.metadata["request_id"]) == ("limelight", "id-1")


def test_a_bad_input_names_its_field_for_people_and_for_programs() -> None:
    status = status_of(InputError('instances[3].inputs["text"]', "is empty"), "id")
    assert status.message == 'instances[3].inputs["text"] is empty'
    bad = error_details_pb2.BadRequest()
    details(InputError('instances[3].inputs["text"]', "is empty"))[1]["BadRequest"].Unpack(bad)
    assert [(each.field, each.description) for each in bad.field_violations] == [
        ('instances[3].inputs["text"]', "is empty")
    ]


def test_a_full_queue_says_when_to_come_back() -> None:
    retry = error_details_pb2.RetryInfo()
    assert details(errors.QueueFullError("full", retry_after=1.5))[1]["RetryInfo"].Unpack(retry)
    assert retry.retry_delay.ToTimedelta().total_seconds() == 1.5


@pytest.mark.parametrize(
    "error", [RuntimeError("/secret/path"), BundleError("/secret/path"), LimelightError("/secret/path")]
)
def test_an_error_that_nobody_foresaw_tells_only_the_requests_id(error: Exception) -> None:
    status = status_of(error, "id-7")
    assert status.code is grpc.StatusCode.INTERNAL
    assert "id-7" in status.message
    assert b"secret" not in status.details and "secret" not in status.message


@pytest.mark.parametrize("letter", ["a", "é", "字", "🦒", "\n"])
def test_a_name_as_long_as_a_request_still_fits_into_trailers(letter: str) -> None:
    status = status_of(InputError(letter * 100_000, letter * 100_000), "x" * 128)
    percent_encoded = sum(1 if 0x20 <= byte < 0x7F else 3 for byte in status.message.encode())
    in_base64 = len(status.details) * 4 / 3
    assert percent_encoded + in_base64 + 600 < 8192  # gRPC's own limit on all metadata together


@pytest.mark.parametrize(
    "error", [errors.ModelUnavailableError("loading"), errors.StoppingError("stopping", retry_after=0.5)]
)
def test_clients_that_try_again_by_themselves_are_told_when(error: errors.TryLaterError) -> None:
    trailing = dict(status_of(error, "id").trailing)
    assert trailing["grpc-retry-pushback-ms"] == str(round(error.retry_after * 1000))


def test_a_full_queue_is_nothing_to_try_again_by_itself() -> None:
    assert "grpc-retry-pushback-ms" not in dict(
        status_of(errors.QueueFullError("full", retry_after=1.0), "id").trailing
    )
