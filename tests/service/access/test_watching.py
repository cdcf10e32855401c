"""Files that change: what counts when."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bundle.errors import LimelightError
from service.access.watching import Watched
from service.metrics import Metrics


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
    assert b'limelight_reloads_total{result="failed",what="letters"} 1' in metrics.page()
    paths[0].write_bytes(b"c")
    assert settled(watched) and watched.value == b"cb"
    assert b'limelight_reloads_total{result="ok",what="letters"} 1' in metrics.page()


def test_what_is_bad_at_first_is_an_error_that_names_the_file(paths: list[Path]) -> None:
    paths[1].write_bytes(b"bad")
    with pytest.raises(LimelightError, match=r"the letters cannot be used: it is bad \(.*/a, .*/b\)"):
        Watched("letters", paths, joined, Metrics())
