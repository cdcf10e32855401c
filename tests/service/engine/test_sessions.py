"""Sessions over one copy of the weights answer as those that have their own, and leave no file behind."""

import gc
import tempfile
from pathlib import Path

import numpy as np
import pytest

from limelight_bundle.reader import BundleFolder
from limelight_service.engine.runtime import sessions
from limelight_service.engine.runtime.providers import Provider

PROVIDER = Provider("CPUExecutionProvider", 2, 2, cores=2)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder in which temporary folders are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def answers(folder: BundleFolder) -> list[list[np.ndarray]]:
    """Outputs of both sessions of the classifier."""
    session = sessions.open_sessions(folder, PROVIDER)["main"]
    ids = np.array([[3, 4, 5, 6]])
    feeds = {"ids": ids, "mask": ids > 0}
    return [session.run(session.outputs, feeds, wide=wide) for wide in (False, True)]


@pytest.mark.parametrize("smallest", [0, 2**40])
def test_narrow_and_wide_sessions_answer_alike(
    folders: dict[str, BundleFolder], scratch: Path, monkeypatch: pytest.MonkeyPatch, smallest: int
) -> None:
    expected = answers(folders["tiny"])[0]
    monkeypatch.setattr(sessions, "SMALLEST_WIDE", 0)
    monkeypatch.setattr(sessions, "SMALLEST", smallest)
    for found in answers(folders["tiny"]):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
    assert list(scratch.iterdir()) == []


def test_where_weights_cannot_be_saved_each_model_has_one_session(
    folders: dict[str, BundleFolder], scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(folders["tiny"])[0]
    monkeypatch.setattr(sessions, "SMALLEST_WIDE", 0)
    monkeypatch.setattr(sessions, "SMALLEST", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch / "nowhere"))
    for found in answers(folders["tiny"]):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def threads() -> int:
    """The threads of this process, those of libraries included."""
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_missing_arena_fails_no_run(folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Provider, "arena", "gpu:0")
    session = sessions.open_sessions(folders["tiny"], PROVIDER)["main"]
    session._short.set()
    ids = np.array([[3, 4]])
    assert session.run(session.outputs, {"ids": ids, "mask": ids > 0})


def test_a_small_graph_keeps_no_threads(folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, many = folders["tiny"], Provider("CPUExecutionProvider", 2, 2, cores=8)
    gc.collect()  # sessions of other tests end here, not below
    before = threads()
    kept = [sessions.open_sessions(folder, many)["main"]]
    assert threads() == before
    monkeypatch.setattr(sessions, "SMALLEST_WIDE", 0)
    kept.append(sessions.open_sessions(folder, many)["main"])
    assert threads() >= before + 7
