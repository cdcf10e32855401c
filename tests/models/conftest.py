"""What the tests of models share: one thread for PyTorch, and data and presets that take a moment."""

import random
from pathlib import Path

import pytest
import torch

from models.training.settings import Preset, Settings
from models.zoo.index import recipe


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """These models are too small for more."""
    torch.set_num_threads(1)


TINY = {
    "han": {"d_embedding": 8, "d_gru": 6, "d_attention": 8, "dropout": 0.1},
    "han-code": {"d_embedding": 8, "d_gru": 6, "d_attention": 8},
    "bahdanau": {"d_embedding": 8, "d_encoder": 8, "d_decoder": 12, "d_attention": 8, "d_maxout": 8},
    "luong": {"d": 8},
    "transformer": {"d_model": 16, "layers": 1, "heads": 2, "d_hidden": 16},
    "gpt": {"d_model": 16, "layers": 1, "heads": 2, "d_hidden": 16},
    "gat": {"heads": 2, "d_head": 4, "dropout": 0.1},
    "rnn-capsule": {"d_embedding": 8, "d_hidden": 6, "dropout": 0.1},
    "disan": {"d": 8, "d_compare": 8, "dropout": 0.0},
    "dme": {"d_embedding": 8, "d": 8, "d_hidden": 6, "dropout": 0.1},
    "hiecoatt": {"channels": (4, 6, 8), "d": 8, "d_attention": 6, "d_answer": 8, "around": 1},
    "mcan": {"channels": (4, 6, 8), "d": 8, "heads": 2, "layers": 1, "d_hidden": 8, "d_fused": 8},
    "psac": {"channels": (4, 6, 8), "d": 8, "heads": 2, "d_hidden": 8},
    "lcr-rot-hop": {"d_embedding": 8, "d_hidden": 6, "dropout": 0.0},
    "rban": {"d_embedding": 8, "d_hidden": 6, "d_attention": 6, "dropout": 0.0},
    "hatn": {"d_embedding": 8, "d": 6, "pivots": 4, "search": 1, "dropout": 0.1},
    "cct": {"channels": (4, 6), "d_model": 8, "layers": 1, "heads": 2, "d_hidden": 12},
    "vit": {"patch": 4, "d_model": 8, "layers": 1, "heads": 2, "d_hidden": 12},
}


# They read and write pairs, character by character.
WRITING = ("bahdanau", "luong", "transformer", "gpt")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets so small that an epoch takes a moment."""
    settings = Settings(epochs=3, batch_size=8, learning_rate=0.02)
    for name, sizes in TINY.items():
        preset = Preset(settings=settings, sizes=sizes, vocabulary=0 if name in WRITING else 50)
        for each in ("demo", "full"):
            monkeypatch.setitem(recipe(name).presets, each, preset)


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
