"""Errors are raised in another process as they were."""

import pytest

from limelight_bundle.errors import BundleError, InputError, LimelightError, OutOfRangeError, TooLargeError
from limelight_service import errors
from limelight_service.errors import ErrorRecord, error_of, record_of

PLAIN = (
    LimelightError,
    errors.ModelNotFoundError,
    errors.ModelRefusedError,
    errors.WrongModelError,
    errors.DeadlineError,
    errors.InferenceError,
    errors.NotFiniteError,
    errors.OverrunError,
    errors.MemoryShortError,
)
OF_INPUTS = (InputError, OutOfRangeError, TooLargeError)
LATER = (errors.ModelUnavailableError, errors.QueueFullError, errors.StoppingError)
ALL = [
    *(kind("words") for kind in PLAIN),
    *(kind("instances[0]", "is wrong") for kind in OF_INPUTS),
    *(kind("words", retry_after=0.25) for kind in LATER),
]


@pytest.mark.parametrize("error", ALL, ids=lambda each: type(each).__name__)
def test_an_error_is_raised_again_as_it_was(error: LimelightError) -> None:
    again = error_of(record_of(error))
    assert type(again) is type(error) and again.message == error.message
    assert vars(again) == vars(error)


def test_an_error_of_no_kind_that_travels_is_the_nearest_that_does() -> None:
    assert record_of(BundleError("/a/path")) == ErrorRecord("LimelightError", "/a/path")
    unknown = error_of(ErrorRecord("SystemExit", "words"))
    assert type(unknown) is errors.InferenceError and unknown.message == "words"
