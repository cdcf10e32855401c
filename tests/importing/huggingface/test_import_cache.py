"""The cache of imports: what is the same checkpoint, and what a failed import leaves."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface import import_cache
from limelight_export.importing.huggingface.checkpoint import read_checkpoint
from limelight_export.importing.huggingface.import_cache import import_once
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from tests.importing.huggingface.encoders import ENCODERS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return ENCODERS["bert"].write(tmp_path / "small", num_hidden_layers=1)


@pytest.fixture
def kept(tmp_path: Path) -> Callable[..., bool]:
    """Whether an import was found; otherwise it is made, by a bundle that holds nothing."""

    def find(folder: Path, options: ImportOptions = ImportOptions(), **choices: Any) -> bool:  # noqa: B008
        written: list[Path] = []

        def write(into: Path) -> None:
            written.append(into / "small" / "1")
            written[0].mkdir(parents=True)
            (written[0] / "bundle.json").write_text("{}")

        found = import_once(read_checkpoint(folder), tmp_path / "cache", options, {"task": "", **choices}, write)
        assert found.name == "small" and (found / "1" / "bundle.json").is_file()
        return not written

    return find


def test_the_same_files_are_the_same_checkpoint_wherever_they_are(
    folder: Path, kept: Callable[..., bool], tmp_path: Path
) -> None:
    assert not kept(folder) and kept(folder)
    moved = shutil.copytree(folder, tmp_path / "elsewhere" / "small")
    os.utime(moved / "config.json", (0, 0))
    (moved / "train.py").write_text("1 / 0")  # no import reads it
    assert kept(moved)


def test_another_file_option_or_program_is_another_checkpoint(
    folder: Path, kept: Callable[..., bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = tmp_path / "texts"
    texts.write_text("one")
    own = ImportOptions(references=texts)
    assert not kept(folder)
    assert not kept(folder, precision="int8") and kept(folder, precision="int8")
    assert not kept(folder, ImportOptions(max_tokens=7))
    assert not kept(folder, own) and kept(folder, own)
    texts.write_text("two")
    assert not kept(folder, own)
    (folder / "README.md").write_text("of which the licence is read")
    assert not kept(folder)
    (folder / "1_Dense").mkdir()
    (folder / "1_Dense" / "config.json").write_text("{}")
    assert not kept(folder) and kept(folder)
    monkeypatch.setattr(import_cache, "_PACKAGES", ("limelight_bundle",))
    assert not kept(folder)


def test_an_import_that_fails_or_whose_files_change_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"

    def interrupted(into: Path) -> None:
        (into / ".writing-1").mkdir(parents=True)
        raise KeyboardInterrupt

    def changing(into: Path) -> None:
        (into / "small" / "1").mkdir(parents=True)
        (folder / "config.json").write_text("{}")

    checkpoint = read_checkpoint(folder)
    with pytest.raises(KeyboardInterrupt):
        import_once(checkpoint, cache, ImportOptions(), {}, interrupted)
    with pytest.raises(CheckpointError, match="changed while it was imported"):
        import_once(checkpoint, cache, ImportOptions(), {}, changing)
    assert {each.suffix for each in cache.iterdir()} <= {".lock"}
