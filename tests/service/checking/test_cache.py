"""Remembered checks: used for exactly the same bundle, and for no other."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from limelight_bundle.reader import BundleFolder
from limelight_service.checking import cache as cache_module
from limelight_service.checking.cache import Cached
from limelight_service.checking.checker import Checks
from limelight_service.checking.selftest import check_samples
from limelight_service.checking.shared import Once
from limelight_service.checking.verdict import Interrupted, Passed, Refused, Verdict, from_json, to_json
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime import sessions
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.runtime.warm_up import warm_up
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.hostile.forge import change_graph, edit
from tests.kit import bundles
from tests.kit.serving import CHECKS

PROVIDER = Provider("CPUExecutionProvider", 2, 2, cores=2)
SETTINGS = Settings()


@dataclass
class Counted:
    """Checks, and counts how often."""

    checks: Checks = CHECKS
    asked: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, folder: Path, provider: Provider, settings: Settings, saves: Path | None = None) -> Verdict:
        """Check it."""
        with self.lock:
            self.asked += 1
        return self.checks.check(folder, provider, settings, saves)

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def folder(tmp_path: Path) -> BundleFolder:
    return bundles.tiny(tmp_path / "models")


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def cached(tmp_path: Path, counted: Counted) -> Cached:
    return Cached(counted, tmp_path / "cache", 2**30)


def passes(checks: Checks, folder: Path, settings: Settings = SETTINGS) -> Passed:
    found = checks.check(folder, PROVIDER, settings)
    assert isinstance(found, Passed), found
    return found


def test_a_bundle_that_passed_is_not_checked_again(cached: Cached, counted: Counted, folder: BundleFolder) -> None:
    first, second = passes(cached, folder.path), passes(cached, folder.path)
    assert counted.asked == 1
    assert second == first == Passed.of(folder)
    again = Cached(counted, cached._folder, 2**30)
    opened = second.folder(folder.path)
    opened.check_unchanged()
    assert passes(again, folder.path) == first and counted.asked == 1
    warm_up(open_model(opened, PROVIDER, SETTINGS, NullObserver()), opened)


def rewritten(folder: BundleFolder) -> None:
    """The same content, in a file of its own."""
    (folder.path / "model.onnx").write_bytes((folder.path / "model.onnx").read_bytes())


def test_what_is_kept_is_of_the_files_as_they_are_now(cached: Cached, counted: Counted, folder: BundleFolder) -> None:
    before = passes(cached, folder.path)
    rewritten(folder)
    after = passes(cached, folder.path)
    assert counted.asked == 1
    assert after.stamps != before.stamps
    after.folder(folder.path).check_unchanged()


def another_graph(folder: BundleFolder) -> None:
    change_graph(folder.path, lambda model: setattr(model, "producer_name", "somebody else"))


def another_title(folder: BundleFolder) -> None:
    edit(folder.path, lambda content: content["description"].update(title="Another"))


@pytest.mark.parametrize("change", [another_graph, another_title], ids=lambda each: each.__name__)
def test_another_bundle_in_its_place_is_checked(
    cached: Cached, counted: Counted, folder: BundleFolder, change: Callable[[BundleFolder], None]
) -> None:
    passes(cached, folder.path)
    change(folder)
    passes(cached, folder.path)
    assert counted.asked == 2


def swapped(folder: BundleFolder) -> None:
    data = bytearray((folder.path / "model.onnx").read_bytes())
    data[-1] ^= 1
    (folder.path / "model.onnx").write_bytes(data)


def removed(folder: BundleFolder) -> None:
    (folder.path / "model.onnx").unlink()


def linked(folder: BundleFolder) -> None:
    (folder.path / "model.onnx").rename(folder.path.parent / "model.onnx")
    (folder.path / "model.onnx").symlink_to(folder.path.parent / "model.onnx")


def grown(folder: BundleFolder) -> None:
    with (folder.path / "model.onnx").open("r+b") as file:
        file.truncate(2**33)


@pytest.mark.parametrize("spoil", [swapped, removed, linked, grown], ids=lambda each: each.__name__)
def test_a_bundle_that_is_spoiled_after_it_passed_is_refused(
    cached: Cached, folder: BundleFolder, spoil: Callable[[BundleFolder], None]
) -> None:
    passes(cached, folder.path)
    spoil(folder)
    found = cached.check(folder.path, PROVIDER, replace(SETTINGS, max_check_bytes=2**30))
    assert isinstance(found, Refused) and found.reason


def test_another_program_library_or_provider_checks_anew(
    cached: Cached, counted: Counted, folder: BundleFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes(cached, folder.path)
    cached.check(folder.path, replace(PROVIDER, cores=1), SETTINGS)
    assert counted.asked == 2
    monkeypatch.setattr(cache_module, "identity", lambda: "another")
    passes(cached, folder.path)
    assert counted.asked == 3


def test_what_was_refused_is_checked_again(cached: Cached, counted: Counted, folder: BundleFolder) -> None:
    swapped(folder)
    for _ in range(2):
        assert isinstance(cached.check(folder.path, PROVIDER, SETTINGS), Refused)
    assert counted.asked == 2
    assert list(cached._folder.iterdir()) == []


@dataclass
class Here:
    """Checks in this process, where a test has made every graph a large one."""

    def check(self, folder: Path, provider: Provider, settings: Settings, saves: Path | None = None) -> Verdict:
        """Check it."""
        from limelight_bundle.reader import read_bundle

        found = read_bundle(folder)
        check_samples(open_model(found, provider, settings, NullObserver(), saved=saves), found)
        return Passed.of(found)

    def close(self) -> None:
        """Nothing to end."""


def test_packed_weights_are_kept_and_used_unless_somebody_changed_them(
    tmp_path: Path, folder: BundleFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SMALLEST_WIDE", 0)
    monkeypatch.setattr(sessions, "SMALLEST", 0)
    counted = Counted(Here())
    cached = Cached(counted, tmp_path / "cache", 2**30)
    for _ in range(2):
        found = passes(cached, folder.path)
        assert found.saved_weights is not None
        assert (found.saved_weights / "graphs" / "0.onnx").is_file()
        model = open_model(found.folder(folder.path), PROVIDER, SETTINGS, NullObserver(), saved=found.saved_weights)
        check_samples(model, folder)
    assert counted.asked == 1
    with (found.saved_weights / "graphs" / "0.onnx").open("ab") as file:
        file.write(b"\0")
    passes(cached, folder.path)
    assert counted.asked == 2


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    counted = Counted()
    folders = [bundles.tiny(tmp_path / "models", f"tiny-{number}").path for number in range(3)]
    one = Cached(counted, tmp_path / "trial", 2**30)
    passes(one, folders[0])
    size = sum(each.stat().st_size for each in one._folder.rglob("*") if each.is_file())
    cached = Cached(counted, tmp_path / "cache", int(2.5 * size))
    imports = tmp_path / "cache" / "checkpoints"
    imports.mkdir()
    (imports / "weights").write_bytes(bytes(3 * size))  # imports of checkpoints do not count, and stay
    os.utime(imports, (0, 0))
    for number, folder in enumerate(folders[:2]):
        passes(cached, folder)
        os.utime(next(each for each in cached._folder.iterdir() if each.stat().st_mtime > 1e6), (number, number))
    passes(cached, folders[0])  # used again
    passes(cached, folders[2])
    asked = counted.asked
    passes(cached, folders[0])
    assert counted.asked == asked
    passes(cached, folders[1])
    assert counted.asked == asked + 1
    assert (imports / "weights").is_file()


def test_a_folder_that_others_can_write_to_is_no_cache(tmp_path: Path, counted: Counted) -> None:
    shared, link = tmp_path / "shared", tmp_path / "link"
    shared.mkdir()
    shared.chmod(0o777)
    Cached(counted, tmp_path / "own", 2**30)
    link.symlink_to(tmp_path / "own")
    for folder in (shared, link):
        with pytest.raises(OSError, match="this user alone"):
            Cached(counted, folder, 2**30)


def test_nothing_that_is_kept_is_trusted_to_be_whole(cached: Cached, counted: Counted, folder: BundleFolder) -> None:
    passes(cached, folder.path)
    for spoiled in (b"", b"{", b"[]", b"3", json.dumps({"digest": "", "stamps": 3}).encode()):
        asked = counted.asked
        next(cached._folder.rglob("verdict.json")).write_bytes(spoiled)
        passes(cached, folder.path)
        assert counted.asked == asked + 1


def test_a_bit_that_turns_anywhere_in_what_is_kept_is_noticed_or_harmless(
    tmp_path: Path, folder: BundleFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the verdict, in the hashes and in packed weights: what is told is what the bundle's own files say."""
    monkeypatch.setattr(sessions, "SMALLEST_WIDE", 0)
    monkeypatch.setattr(sessions, "SMALLEST", 0)
    counted = Counted(Here())
    cached = Cached(counted, tmp_path / "cache", 2**30)
    expected = passes(cached, folder.path)
    files = sorted(each for each in cached._folder.rglob("*") if each.is_file())
    assert {"verdict.json", "hashes.json", "0.onnx"} <= {each.name for each in files}
    (kept,), random = cached._folder.iterdir(), Random(0)
    for file in files:
        whole = file.read_bytes()
        for _ in range(60):
            data = bytearray(whole)
            data[random.randrange(len(data))] ^= 1 << random.randrange(8)
            file.write_bytes(data)
            assert cache_module._find(kept, folder.path, SETTINGS) is None, file.name
        file.write_bytes(whole)
    assert passes(cached, folder.path) == expected and counted.asked == 1


def test_a_copy_is_known_again_and_goes_by_its_own_name(cached: Cached, counted: Counted, folder: BundleFolder) -> None:
    first, copied = passes(cached, folder.path), folder.path.parent.parent / "promoted" / "9"
    shutil.copytree(folder.path, copied)
    found = passes(cached, copied)
    assert (counted.asked, found.digest, found.origin) == (1, first.digest, "tiny/1")
    description = found.folder(copied).bundle.description
    assert (description.name, description.version) == ("promoted", 9)


@dataclass
class Killed:
    """Checks whose process the system ends, so many times."""

    times: int
    asked: int = 0

    def check(self, folder: Path, provider: Provider, settings: Settings, saves: Path | None = None) -> Verdict:
        """Come to no end at first."""
        self.asked += 1
        return Interrupted("ended") if self.asked <= self.times else CHECKS.check(folder, provider, settings, saves)

    def close(self) -> None:
        """Nothing to end."""


def test_an_interrupted_check_is_kept_by_nobody(tmp_path: Path, folder: BundleFolder) -> None:
    killed = Killed(2)
    checks = Once(Cached(killed, tmp_path / "cache", 2**30))
    found = [checks.check(folder.path, PROVIDER, SETTINGS) for _ in range(4)]
    assert found[:2] == [Interrupted("ended")] * 2 and found[2] == found[3] == Passed.of(folder)
    assert killed.asked == 3
    assert from_json(to_json(found[0])) == found[0]


def test_several_who_ask_at_once_have_a_bundle_checked_once(folder: BundleFolder) -> None:
    counted = Counted()
    once = Once(counted)
    found: list[Verdict] = []
    threads = [
        threading.Thread(target=lambda: found.append(once.check(folder.path, PROVIDER, SETTINGS))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.asked == 1
    assert found == [Passed.of(folder)] * 8
    once.forget()
    once.check(folder.path, PROVIDER, SETTINGS)
    once.check(folder.path, PROVIDER, SETTINGS)
    assert counted.asked == 3
