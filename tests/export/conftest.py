"""Each tiny model exported once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from limelight_bundle.attention_drift import FEWEST_INPUTS
from limelight_bundle.reader import BundleFolder
from limelight_bundle.values import Instance, Text
from limelight_models.cards.card import TrainedModel
from tests.kit import tiny
from tests.kit.exports import export_model

MODELS: dict[str, Callable[[], TrainedModel]] = {
    "reader": lambda: tiny.trained(tiny.Reader(), tiny.reader_card()),
    "long_reader": lambda: tiny.trained(tiny.LongReader(), tiny.long_reader_card()),
    "packed_reader": lambda: tiny.trained(tiny.PackedReader(), tiny.long_reader_card("packed_reader")),
    "documents": lambda: tiny.trained(
        tiny.Documents(), tiny.documents_card(), "the cat sat . a dog ran on the mat .", "dog"
    ),
    "drawing": lambda: tiny.trained(tiny.Drawing(), tiny.drawing_card()),
    "writer": lambda: tiny.trained(tiny.Writer(), tiny.writer_card()),
}


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repository")


@pytest.fixture(scope="session")
def exported(repository: Path) -> Callable[[str], tuple[TrainedModel, BundleFolder]]:
    """Export a tiny model by name, the first time that it is asked for."""
    done: dict[str, tuple[TrainedModel, BundleFolder]] = {}

    def get(name: str) -> tuple[TrainedModel, BundleFolder]:
        if name not in done:
            torch.manual_seed(0)
            trained = MODELS[name]()
            refused: Instance = {"text": Text("")}
            held_out = (*trained.examples * (FEWEST_INPUTS // len(trained.examples)), refused)
            trained = replace(trained, held_out=lambda: held_out)
            done[name] = trained, export_model(trained, repository)
        return done[name]

    return get
