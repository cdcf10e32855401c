"""Files that change: what counts when."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from limelight_bundle.errors import LimelightError
from limelight_service.observability.metrics import Metrics
from limelight_service.security.watching import Watched
from tests.service.metered import counted


def joined(contents: Sequence[bytes]) -> bytes:
    if b"bad" in contents:
        raise LimelightError("it is bad")
    if b"worse" in contents:
        raise RecursionError
    return b"".join(contents)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "a", tmp_path / "b"]
    for path in found:
        path.write_bytes(path.name.encode())
    return found


def settled(watched: Watched[bytes]) -> bool:
    """Look twice, a change apart."""
    assert not watched.refresh()
    return watched.refresh()


def test_a_change_counts_once_it_has_stayed(paths: list[Path]) -> None:
    watched = Watched("letters", paths, joined, Metrics())
    assert watched.value == b"ab" and not settled(watched)
    paths[0].write_bytes(b"A")
    assert not watched.refresh()
    paths[1].write_bytes(b"B")  # the other one comes later
    assert not watched.refresh() and watched.value == b"ab"
    assert watched.refresh() and watched.value == b"AB"
    assert not settled(watched)


@pytest.mark.parametrize("content", [b"bad", b"worse", None, b"x" * (2**22 + 1)])
def test_what_is_bad_is_told_once_and_what_was_good_stays(
    paths: list[Path], content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = Metrics()
    watched = Watched("letters", paths, joined, metrics)
    if content is None:
        paths[0].unlink()
    else:
        paths[0].write_bytes(content)
    for _ in range(5):
        assert not watched.refresh()
    assert watched.value == b"ab"
    assert [each.levelname for each in caplog.records] == ["ERROR"]
    assert counted(metrics)['limelight_reloads_total{result="failed",what="letters"}'] == 1
    paths[0].write_bytes(b"c")
    assert settled(watched) and watched.value == b"cb"
    assert counted(metrics)['limelight_reloads_total{result="ok",what="letters"}'] == 1


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def missing(path: Path) -> None:
    path.unlink()


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def again(path: Path, content: bytes) -> None:
    """Put a good file in a path's place, whatever is there."""
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(content)


@pytest.mark.parametrize("becomes", [pipe, folder, loop, missing, device])
@pytest.mark.parametrize("looks", [1, 3])
@pytest.mark.parametrize("content", [b"c", b"a"])
def test_whatever_a_path_was_meanwhile_the_next_good_file_counts(
    paths: list[Path], becomes: Callable[[Path], None], looks: int, content: bytes
) -> None:
    watched = Watched("letters", paths, joined, Metrics())
    becomes(paths[0])
    done = threading.Event()

    def look() -> None:
        for _ in range(looks):
            assert not watched.refresh()
        done.set()

    threading.Thread(target=look, daemon=True).start()
    assert done.wait(20), "it waits for a pipe"
    assert watched.value == b"ab"
    again(paths[0], content)
    watched.refresh(), watched.refresh()
    assert watched.value == content + b"b"


def test_files_that_stay_bad_are_told_of_again_and_seldom(paths: list[Path], caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    watched = Watched("letters", paths, joined, Metrics(), clock=lambda: now[0])
    paths[0].write_bytes(b"bad")
    for now[0] in range(3000):
        assert not watched.refresh()
    assert 2 <= len(caplog.records) <= 6
    assert {each.levelname for each in caplog.records} == {"ERROR"}
    paths[0].write_bytes(b"good")
    settled(watched)
    caplog.clear()
    for now[0] in range(3000, 6000):
        watched.refresh()
    assert not caplog.records


def test_what_is_bad_at_first_is_an_error_that_names_the_file(paths: list[Path]) -> None:
    paths[1].write_bytes(b"bad")
    with pytest.raises(LimelightError, match=r"the letters cannot be used: it is bad \(.*/a, .*/b\)"):
        Watched("letters", paths, joined, Metrics())
