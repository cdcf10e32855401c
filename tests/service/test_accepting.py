"""Calls are taken in several at a time, by this release of gRPC, and one by one with another."""

import time
from pathlib import Path

import grpc
import pytest

from service import accepting
from tests.service import bundles
from tests.service.serving import predict, serving, text

AT_ONCE = 8


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    return folder


def answered(repository: Path) -> int:
    """Have calls come while the event loop does something else, and hardly any may wait for it; how many get in."""
    with serving(repository, pending_calls=1) as running:
        request = predict("tiny", text("the cat"))
        running.stub.Predict(request)  # the connection stands
        running.on_loop(lambda: time.sleep(1.0))
        calls = [running.stub.Predict.future(request, timeout=60) for _ in range(AT_ONCE)]
        return [each.code() for each in calls].count(grpc.StatusCode.OK)


def test_calls_that_come_together_are_taken_in_together(repository: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert accepting.is_known()  # where not: look at what `accepting` uses in the new release, then say that it is
    assert answered(repository) == AT_ONCE
    assert not [each for each in caplog.records if each.name == accepting.__name__]


def test_a_release_that_nobody_has_looked_at_serves_as_well(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accepting, "_KNOWN", ())
    assert 1 <= answered(repository) < AT_ONCE
