"""SegFormer classifies pictures and each of their cells as transformers does, with maps from cells to coarser ones."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import limelight
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from tests.importing.huggingface.checkpoints import write_json
from tests.importing.huggingface.test_vision import LABELS, picture, pixels_of
from tests.kit.serving import serving

NAME, LIBRARY = "segformer", "SegformerForSemanticSegmentation"
SIZES = ((64, 96), (70, 45))
CELLS, KEYS, HEADS = (16 * 24, 8 * 12, 8 * 12, 4 * 6), (2 * 3, 2 * 3, 2 * 3, 4 * 6), (1, 2, 2, 3)


def write(folder: Path, model_class: str = LIBRARY, rows: int = 64) -> Path:
    """Write a checkpoint with random weights: three stages, of one layer, of two and of one."""
    torch.manual_seed(0)
    config = transformers.SegformerConfig(
        num_encoder_blocks=3,
        depths=[1, 2, 1],
        sr_ratios=[8, 4, 1],
        hidden_sizes=[8, 16, 24],
        patch_sizes=[7, 3, 3],
        strides=[4, 2, 2],
        num_attention_heads=[1, 2, 3],
        mlp_ratios=[2, 2, 2],
        decoder_hidden_size=16,
        id2label=LABELS,
    )
    model = getattr(transformers, model_class)(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    processor = transformers.SegformerImageProcessor(size={"height": rows, "width": 96}, do_reduce_labels=True)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def client(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    import_checkpoint(folder, repository)
    with serving(repository) as running, limelight.Client(running.server.address) as caller:
        yield caller


def test_classes_of_cells_and_maps_equal_transformers(folder: Path, client: limelight.Client, library: Any) -> None:
    files = [picture(*size) for size in SIZES]
    answers = client.attend("segformer", [{"image": limelight.Image(each)} for each in files])
    for data, answer in zip(files, answers, strict=True):
        with torch.no_grad():
            output = library(pixels_of(folder, data), output_attentions=True)
        logits = output.logits[0].flatten(1).T
        np.testing.assert_allclose(answer.prediction.outputs["logits"], logits, atol=1e-4 * float(logits.abs().max()))
        best = [LABELS[int(place)] for place in logits.argmax(-1)]
        assert [each[0].label for each in answer.prediction.tags] == best
        assert len(best) == CELLS[0]
        assert len(answer.maps) == len(output.attentions) == len(CELLS)
        for layer, weights in enumerate(output.attentions):
            found = answer[f"encoder.{layer}.self"]
            assert found.weights.shape == (HEADS[layer], CELLS[layer], KEYS[layer])
            np.testing.assert_allclose(found.weights, weights[0].numpy(), atol=1e-4)
    keys = answers[-1]["encoder.0.self"].key
    assert keys.grid and (keys.grid.rows, keys.grid.columns, keys.grid.region) == (2, 3, limelight.Region(0, 0, 45, 70))


def test_classes_of_a_picture_equal_transformers(tmp_path: Path) -> None:
    folder = write(tmp_path / "segformer", "SegformerForImageClassification")
    trained, pixels = read_model(folder), pixels_of(folder, picture(70, 45))
    library = transformers.SegformerForImageClassification.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        torch.testing.assert_close(trained.model(pixels=pixels).outputs["logits"], library(pixels).logits)


def test_a_rollout_takes_the_stage_whose_keys_are_its_cells(client: limelight.Client) -> None:
    image = {"image": limelight.Image(picture(70, 45))}
    answer = client.attend("segformer", image, maps="encoder.3.self", rollout=True)
    assert answer.maps[0].weights.shape == (1, CELLS[3], KEYS[3])
    with pytest.raises(limelight.InvalidArgument, match=r"needs square maps, which encoder\.0\.self is not"):
        client.attend("segformer", image, rollout=True)


def test_keys_that_do_not_cover_the_picture_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "segformer", rows=72)
    with pytest.raises(CheckpointError, match="pictures of 72 x 96 pixels have 18 x 24 cells in stage 0; its keys are"):
        read_model(folder)


def test_every_field_that_transformers_writes_is_classified(tmp_path: Path) -> None:
    written = json.loads(transformers.SegformerConfig().to_json_string(use_diff=False))
    assert "drop_path_rate" in ARCHITECTURES["segformer"].fields.check(written)
    folder = write(tmp_path / "segformer")
    write_json(folder / "config.json", json.loads((folder / "config.json").read_text()) | {"model_type": "wav2vec2"})
    with pytest.raises(CheckpointError, match="wav2vec2 cannot be imported: it has as many frames as a recording is"):
        read_model(folder)
