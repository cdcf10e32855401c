"""YOLOS finds the objects that transformers finds, and the query of a box is a row of its maps."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image as Pillow

import limelight
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from tests.importing.huggingface.checkpoints import write_json
from tests.importing.huggingface.test_vision import picture, pixels_of
from tests.kit.serving import serving

NAME, LIBRARY = "yolos", "YolosForObjectDetection"
ROWS, COLUMNS, PATCH, QUERIES = 48, 64, 8, 5
LABELS = {0: "cat", 1: "dog", 2: "mat"}
SIZES = ((ROWS, COLUMNS), (70, 45), (33, 97))


def write(folder: Path, **processor: Any) -> Path:
    """Write a checkpoint with random weights, whose positions are those of smaller pictures."""
    torch.manual_seed(0)
    config = transformers.YolosConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=[32, 40],
        patch_size=PATCH,
        num_detection_tokens=QUERIES,
        id2label=LABELS,
        initializer_range=0.3,
    )
    model = transformers.YolosForObjectDetection(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    stated = {
        "image_processor_type": "YolosImageProcessor",
        "format": "coco_detection",
        "do_pad": True,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
        "size": {"height": ROWS, "width": COLUMNS},
    }
    write_json(folder / "preprocessor_config.json", stated | processor)
    return folder


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    import_checkpoint(folder, repository, options=ImportOptions(threshold=0.5))
    with serving(repository) as server, limelight.Client(server.server.address) as caller:
        yield caller


def test_boxes_maps_and_hidden_states_equal_transformers(folder: Path, client: limelight.Client, library: Any) -> None:
    files = [picture(*size) for size in SIZES]
    answers = client.attend("yolos", [{"image": limelight.Image(each)} for each in files], hidden=limelight.Hidden())
    processor, count = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil"), 0
    for data, answer in zip(files, answers, strict=True):
        with torch.no_grad():
            output = library(pixels_of(folder, data), output_attentions=True, output_hidden_states=True)
        sizes = [Pillow.open(BytesIO(data)).size[::-1]]
        (found,) = processor.post_process_object_detection(output, threshold=0.5, target_sizes=sizes)
        boxes = answer.prediction.boxes
        count += len(boxes)
        np.testing.assert_allclose(
            [each.probability for each in boxes], found["scores"].sort(descending=True)[0], atol=1e-5
        )
        edges = [[each.left, each.top, each.right, each.bottom] for each in boxes]
        expected = found["boxes"][found["scores"].argsort(descending=True)]
        np.testing.assert_allclose(np.reshape(edges, (-1, 4)), expected, atol=1e-3)
        np.testing.assert_allclose(answer.prediction.outputs["logits"], output.logits[0], atol=1e-4)
        # Of transformers, detection tokens are the last.
        for layer, weights in enumerate(output.attentions):
            moved = weights[0].roll((QUERIES, QUERIES), (1, 2)).numpy()
            np.testing.assert_allclose(answer[f"encoder.{layer}.self"].weights, moved, atol=1e-4)
        for layer, states in enumerate(output.hidden_states):
            moved = states[0].roll(QUERIES, 0).numpy()
            hidden = answer.prediction.hidden[f"encoder.hidden.{layer}"].vectors
            np.testing.assert_allclose(hidden, moved, atol=1e-4 * np.abs(moved).max())
    assert 0 < count < QUERIES * len(files)
    labels = answers[0]["encoder.0.self"].key.labels
    assert labels[: QUERIES + 2] == (*(f"query {number}" for number in range(QUERIES)), "class", "r0c0")


def test_a_row_of_a_map_is_that_of_a_box(client: limelight.Client) -> None:
    image = {"image": limelight.Image(picture(70, 45))}
    best = client.predict("yolos", image).boxes[0]
    answer = client.attend("yolos", image, maps="encoder.2.self", queries=[best.query], max_classes=1)
    assert [each.query for each in answer.prediction.boxes] == [best.query]
    (found,) = answer.maps
    assert found.query.labels == (f"query {best.query}",)
    assert found.key.grid and found.key.grid.region == limelight.Region(0, 0, 45, 70)


def test_a_size_in_place_of_one_that_keeps_the_aspect_ratio(tmp_path: Path) -> None:
    folder = write(tmp_path / "yolos", size={"shortest_edge": 800, "longest_edge": 1333})
    with pytest.raises(CheckpointError, match="keeps the aspect ratio; a bundle takes pictures of one size: --size"):
        read_model(folder)
    with pytest.raises(CheckpointError, match="not whole cells of 8 x 8; name multiples of 8: --size 24x40"):
        read_model(folder, options=ImportOptions(size=(24, 41)))
    card = read_model(folder, options=ImportOptions(size=(24, 40))).card.description
    (grid,) = (each.grid for each in card.label_sets if each.HasField("grid"))
    assert (grid.rows, grid.columns, len(grid.leading)) == (3, 5, QUERIES + 1)


def test_every_field_that_transformers_writes_is_classified() -> None:
    written = json.loads(transformers.YolosConfig().to_json_string(use_diff=False))
    assert "giou_cost" in ARCHITECTURES["yolos"].fields.check(written)
