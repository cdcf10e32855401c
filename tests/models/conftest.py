"""Fixtures of the tests of models: data and presets that take a moment."""

import random
from pathlib import Path

import pytest

from limelight_models.index import ZOO, recipe


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets so small that an epoch takes a moment."""
    for name in ZOO:
        presets = recipe(name).presets
        for each in ("demo", "full"):
            monkeypatch.setitem(presets, each, presets["tiny"])


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Documents that one word decides."""
    chance = random.Random(0)
    lines = []
    for number in range(60):
        label, word = ("warm", "sun") if number % 2 else ("cold", "snow")
        filler = [" ".join(chance.choices("the a day was long and we went home".split(), k=5)) for _ in range(3)]
        lines.append(f"{label}\t{filler[0]}. {filler[1]} {word} {filler[2]}.\n")
    path = tmp_path / "documents.tsv"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """Words to be written backwards."""
    chance = random.Random(1)
    words = ["".join(chance.choices("abc", k=chance.randint(2, 4))) for _ in range(50)]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    return path
