"""Shared parts of the models that answer questions about pictures."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image as Picture

from limelight_bundle.values import Text
from limelight_models.data.canvas import captions
from limelight_models.data.canvas.world import hands
from limelight_models.data.dataset import Example
from limelight_models.data.gold import Box, Gold, Span
from limelight_models.index import recipe
from limelight_models.recipes import vision_pretraining
from limelight_models.recipes.answering import few_regions, frames_of
from limelight_models.recipes.recipe import Blueprint
from tests.models.runs import losses, order, run


def test_sizes_are_in_whole_cells_and_large_pictures_are_made_smaller() -> None:
    assert few_regions(48, 48, 6) == (48, 48)
    assert few_regions(100, 400, 6) == (36, 150)  # 6 x 25 regions
    assert few_regions(3, 5, 6) == (6, 6)
    assert frames_of(32, 192, 8) == (32, 192)
    assert frames_of(500, 1490, 8) == (104, 312)  # three frames of 13 x 13 cells
    assert frames_of(20, 7, 8) == (16, 16)


def test_a_cell_is_named_after_the_digit_that_a_quarter_of_it_shows() -> None:
    caption = Text("a two left of a seven")
    gold = (
        Gold((Box("image", 0, 0, 6, 12),), of=Span("target", 2, 5)),
        Gold((Box("image", 20, 5, 27, 17),), of=Span("target", 16, 21)),  # a sixth of its first row: too little
    )
    found = vision_pretraining.names(Example({"target": caption}, gold=gold), 6)
    assert found.shape == (8, 8)
    assert {(r, c): found[r, c] for r, c in zip(*np.nonzero(found != 10), strict=True)} == {
        (0, 0): 2, (1, 0): 2, (1, 3): 7, (2, 3): 7, (1, 4): 7, (2, 4): 7,
    }  # fmt: skip


def test_cells_learn_to_name_digits_where_the_config_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vision_pretraining, "_PICTURES", 40)
    monkeypatch.setattr(vision_pretraining, "_EPOCHS", 1)
    chosen = recipe("hiecoatt")
    assert chosen.start is not None
    dataset = captions.dataset(training=1, held_out=1)
    for taught in (False, True):
        torch.manual_seed(0)
        sizes = {"rows": 48, "columns": 48, "vocabulary": 9, "classes": 3, "taught": taught}
        blueprint = Blueprint(chosen.config(**sizes), (), {})
        network = chosen.build(blueprint)
        before = {name: value.clone() for name, value in network.state_dict().items()}
        chosen.start(network, dataset, blueprint)
        changed = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
        assert bool(changed) == taught
        assert all(name.startswith("regions.cells.layers.") for name in changed)


def test_what_cells_are_taught_is_drawn_by_hands_of_the_training_part(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[object] = []
    example = captions.example
    monkeypatch.setattr(captions, "example", lambda hand, *rest: drawn.append(hand) or example(hand, *rest))
    monkeypatch.setattr(vision_pretraining, "_PICTURES", 4)
    monkeypatch.setattr(vision_pretraining, "_EPOCHS", 1)
    blueprint = Blueprint(recipe("mcan").config(rows=48, columns=48, vocabulary=9, classes=3, taught=True), (), {})
    vision_pretraining.learn_to_see(
        recipe("mcan").build(blueprint), captions.dataset(training=1, held_out=1), blueprint
    )
    assert sum(hand is hands()[0] for hand in drawn) == 1 + 4


def spots(folder: Path) -> Path:
    """Questions about pictures with a light spot on the left or on the right, in the first or the last of frames."""
    chance = np.random.default_rng(0)
    lines = []
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for number in range(80):
            light = number % 2
            pixels = chance.integers(0, 60, (8, 24), np.uint8)
            pixels[2:6, slice(2, 6) if light else slice(18, 22)] += 180
            side = ("left", "right")[number // 2 % 2]
            buffer = io.BytesIO()
            Picture.fromarray(pixels).save(buffer, "PNG")
            archive.writestr(f"{number}.png", buffer.getvalue())
            answer = "yes" if (side == "left") == bool(light) else "no"
            lines.append({"image": f"{number}.png", "question": f"is the {side} light?", "answer": answer})
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["hiecoatt", "mcan", "psac-video", "lxmert"])
def test_it_learns_from_files(name: str, tmp_path: Path) -> None:
    made = run(order(name, spots(tmp_path), tmp_path / "run", epochs=8, patience=8))
    assert losses(tmp_path / "run")[-1] < 0.95 * losses(tmp_path / "run")[0]
    assert made[0].baseline_name == "most frequent for the question"
