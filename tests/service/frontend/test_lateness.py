"""Calls that would be late are refused at once, whatever they would wait for."""

import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import service_pb2
from limelight_service.errors import QueueFullError
from limelight_service.frontend import preparation
from limelight_service.frontend.lateness import check_in_time
from limelight_service.ipc.boundary import WaitEstimate
from tests.kit.serving import predict, refusal, serving, text

TEXTS = ["cat " * 100] * 3  # more than the event loop preprocesses itself
SLOW = 0.1  # seconds of each


def request() -> service_pb2.PredictRequest:
    made = predict("tiny", *map(text, TEXTS))
    made.truncate = True
    return made


def test_calls_that_would_wait_too_long_for_preprocessing_are_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared_one: Any = preparation._prepared_one

    def slowly(*arguments: Any) -> Any:
        time.sleep(SLOW)
        return prepared_one(*arguments)

    monkeypatch.setattr(preparation, "_prepared_one", slowly)
    with serving(repository, preprocess_threads=1) as running:
        running.stub.Predict(request(), timeout=60)
        calls = [running.stub.Predict.future(request(), timeout=60 * SLOW) for _ in range(40)]
        assert running.stub.Predict(predict("tiny", text("cat")), timeout=40 * SLOW).predictions  # needs no thread
        codes = [each.code() for each in calls]
        refused = [refusal(each.exception()) for each in calls if each.code() is not grpc.StatusCode.OK]
        assert {(each.code, each.reason) for each in refused} == {("RESOURCE_EXHAUSTED", "QUEUE_FULL")}
        assert all(each.retry for each in refused)
        assert codes.count(grpc.StatusCode.OK) >= 2
        assert running.stub.Predict(request(), timeout=60 * SLOW).predictions  # nothing waits any more


@given(st.floats(0, 10), st.floats(0, 10), st.integers(1, 50), st.floats(0, 10))
def test_more_waiting_never_lets_a_call_in_that_less_would_keep_out(
    seconds: float, per_row: float, rows: int, preprocessing: float
) -> None:
    deadline = time.monotonic() + 5.0

    def is_let_in(factor: int) -> bool:
        try:
            check_in_time(WaitEstimate(factor * seconds, factor * per_row), rows, factor * preprocessing, deadline)
        except QueueFullError as error:
            assert error.retry_after is not None and 0 < error.retry_after <= 30
            return False
        return True

    assert is_let_in(0)  # an idle server refuses nobody
    assert is_let_in(1) or not is_let_in(2)


def test_no_call_of_the_first_burst_is_refused(repository: Path) -> None:
    """What the warm-up took is the first estimate, which a guess would refuse callers by."""
    with serving(repository) as running:
        calls = [running.stub.Predict.future(predict("tiny", text("cat")), timeout=2) for _ in range(64)]
        codes = {call.code() for call in calls}
    assert grpc.StatusCode.RESOURCE_EXHAUSTED not in codes and codes
