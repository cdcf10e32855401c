"""Processes that check bundles: their limits, and what becomes of a bundle whose process ends."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from limelight_bundle.errors import LimelightError
from limelight_service.checking import checker as checker_module
from limelight_service.checking import process as process_module
from limelight_service.checking.checker import Checker
from limelight_service.checking.verdict import Interrupted, Passed, Refused, Verdict
from limelight_service.engine.runtime.providers import Provider
from limelight_service.errors import ModelUnavailableError
from limelight_service.settings import Settings
from tests.hostile.forge import LOOP, change_graph, copied, put_behind
from tests.kit import bundles
from tests.kit.processes import alive, children
from tests.kit.serving import eventually

PROVIDER = Provider("CPUExecutionProvider", 2, 2, cores=1)
SETTINGS = Settings(cores=1)
CHECKING = "limelight_service.checking"


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    """One for all tests that let it go on."""
    made = Checker(idle=60.0)
    yield made
    made.close()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundles.tiny(tmp_path_factory.mktemp("models")).path


@pytest.fixture(scope="module")
def endless(good: Path) -> Path:
    folder = copied(good, "endless")

    def change(model: onnx.ModelProto) -> None:
        values = {"trips": np.array(2**62), "always": np.array(True), "nothing": np.float32(0)}
        put_behind(model, "logits", LOOP + "logits = Identity(carried)", **values)

    change_graph(folder, change)
    return folder


def refused(checker: Checker, folder: Path, settings: Settings) -> str:
    found = checker.check(folder, PROVIDER, settings)
    assert isinstance(found, Refused)
    return found.reason


def passes(checker: Checker, folder: Path) -> bool:
    return isinstance(checker.check(folder, PROVIDER, SETTINGS), Passed)


def meanwhile(check: Callable[[], Verdict]) -> tuple[threading.Thread, list[Verdict | LimelightError]]:
    """Check in a thread; the list gets what is found."""
    found: list[Verdict | LimelightError] = []

    def run() -> None:
        try:
            found.append(check())
        except LimelightError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_time_is_limited_and_the_next_bundle_gets_another_process(checker: Checker, good: Path, endless: Path) -> None:
    others = set(children(os.getpid(), CHECKING))
    assert passes(checker, good)
    first = set(children(os.getpid(), CHECKING)) - others
    assert "longer than the 0.5 s that it may" in refused(checker, endless, replace(SETTINGS, check_seconds=0.5))
    assert passes(checker, good)
    assert first and not first & set(children(os.getpid(), CHECKING))


def test_time_of_a_core_is_limited_for_each_bundle_anew(checker: Checker, good: Path, endless: Path) -> None:
    short = replace(SETTINGS, check_cpu_seconds=1)
    assert "more than the 1 s of a core" in refused(checker, endless, short)
    for _ in range(3):
        assert isinstance(checker.check(good, PROVIDER, short), Passed)


def test_memory_is_limited(checker: Checker, good: Path) -> None:
    for most in (1000, 100_000):
        reason = refused(checker, good, replace(SETTINGS, max_check_bytes=most))
        assert str(most) in reason and str(good) not in reason
        assert passes(checker, good)


def test_a_process_that_is_killed_says_nothing_against_its_bundle(good: Path, endless: Path) -> None:
    checker = Checker(idle=60.0)
    before = set(children(os.getpid(), CHECKING))
    thread, found = meanwhile(lambda: checker.check(endless, PROVIDER, SETTINGS))
    assert eventually(lambda: bool(set(children(os.getpid(), CHECKING)) - before), 60)
    (pid,) = set(children(os.getpid(), CHECKING)) - before
    assert eventually(lambda: _seconds(pid) > 1.0, 60)  # past its start: it loops
    os.kill(pid, signal.SIGKILL)
    thread.join()
    assert isinstance(found[0], Interrupted) and "(SIGKILL)" in found[0].why
    assert passes(checker, good)
    checker.close()


def _seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_bundle_that_holds_its_process_up_holds_up_no_other(
    good: Path, endless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checker = Checker(idle=60.0)
    monkeypatch.setattr(checker_module, "_PATIENCE", 0.05)
    monkeypatch.setattr(checker_module, "_STUCK", 0.2)
    thread, found = meanwhile(lambda: checker.check(endless, PROVIDER, SETTINGS))
    time.sleep(0.1)
    assert passes(checker, good)
    assert not found
    checker.close()  # which ends what is under way, and checks nothing any more
    thread.join()
    assert isinstance(found[0], ModelUnavailableError)
    with pytest.raises(ModelUnavailableError, match="stopping"):
        checker.check(good, PROVIDER, SETTINGS)


def test_a_process_with_nothing_to_do_ends_and_the_next_bundle_starts_another(good: Path) -> None:
    checker = Checker(idle=0.2)
    before = set(children(os.getpid(), CHECKING))
    assert passes(checker, good)
    started = set(children(os.getpid(), CHECKING)) - before
    assert eventually(lambda: not any(alive(pid) for pid in started), 60)
    assert passes(checker, good)
    checker.close()


def test_however_many_processes_have_ended_the_next_bundle_is_checked(
    good: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker_module, "_PATIENCE", 0.01)
    checker, settings = Checker(idle=1.0), Settings(cores=6)
    before = set(children(os.getpid(), CHECKING))
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(lambda _: isinstance(checker.check(good, PROVIDER, settings), Passed), range(6)))
    assert eventually(lambda: set(children(os.getpid(), CHECKING)) <= before, 60)
    assert passes(checker, good)
    checker.close()


def test_where_no_process_starts_a_bundle_says_so(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checker = Checker(idle=60.0)
    monkeypatch.setattr(process_module, "_PROGRAM", "raise SystemExit('no luck')")
    found = checker.check(good, PROVIDER, SETTINGS)
    assert isinstance(found, Interrupted) and "no process can be started" in found.why
    monkeypatch.undo()
    assert passes(checker, good)
    checker.close()
