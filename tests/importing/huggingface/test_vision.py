"""Imported encoders of pictures answer as transformers does, from the file of a picture to classes and maps."""

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
from limelight_bundle.values import Array, Image
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from tests.importing.huggingface.checkpoints import change_config, write_json
from tests.kit.serving import serving

SIZE, PATCH = 32, 8
LABELS = {0: "cat", 1: "dog", 2: "mat"}
PROCESSORS = {
    "ViT": {
        "image_processor_type": "ViTImageProcessor",
        "do_resize": True,
        "size": {"height": SIZE, "width": SIZE},
        "resample": 2,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.5, 0.25, 0.2],
    },
    "DeiT": {
        "size": {"height": SIZE + 8, "width": SIZE + 8},
        "resample": 3,
        "do_center_crop": True,
        "crop_size": {"height": SIZE, "width": SIZE},
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    },
}


def write(folder: Path, kind: str, **processor: Any) -> Path:
    """Write a checkpoint with random weights."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=SIZE,
        patch_size=PATCH,
        id2label=LABELS,
        initializer_range=0.3,
    )
    getattr(transformers, f"{kind}ForImageClassification")(config).eval().save_pretrained(folder)
    write_json(folder / "preprocessor_config.json", {**PROCESSORS[kind], **processor})
    return folder


def picture(rows: int, columns: int) -> bytes:
    pixels = np.random.default_rng(rows).integers(0, 256, (rows // 4 + 1, columns // 4 + 1, 3), dtype=np.uint8)
    file = BytesIO()
    Pillow.fromarray(pixels).resize((columns, rows), Pillow.Resampling.BICUBIC).save(file, "PNG")
    return file.getvalue()


def pixels_of(kind: str, data: bytes) -> Array:
    """The pixels of a picture, step by step as the processor states them: [channel, row, column]."""
    stated = PROCESSORS[kind]
    image = Pillow.open(BytesIO(data)).convert("RGB")
    rows, columns = stated["size"]["height"], stated["size"]["width"]
    values = np.asarray(image.resize((columns, rows), Pillow.Resampling(stated["resample"])), np.float64)
    top, left = (rows - SIZE) // 2, (columns - SIZE) // 2
    values = values[top : top + SIZE, left : left + SIZE] / 255
    return ((values - stated["image_mean"]) / stated["image_std"]).astype(np.float32).transpose(2, 0, 1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: write(root / kind.lower(), kind) for kind in PROCESSORS}


@pytest.fixture(scope="module")
def client(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    for folder in folders.values():
        import_checkpoint(folder, repository)
    with serving(repository) as running, limelight.Client(running.server.address) as caller:
        yield caller


@pytest.mark.parametrize("kind", PROCESSORS)
def test_classes_and_maps_of_pictures_equal_transformers(
    kind: str, folders: dict[str, Path], client: limelight.Client
) -> None:
    files = [picture(*size) for size in ((SIZE, SIZE), (70, 45), (20, 90))]
    answers = client.attend(kind.lower(), [{"image": limelight.Image(each)} for each in files])
    model = transformers.AutoModelForImageClassification.from_pretrained(folders[kind], attn_implementation="eager")
    with torch.no_grad():
        expected = model.eval()(
            torch.tensor(np.stack([pixels_of(kind, each) for each in files])), output_attentions=True
        )
    leading = {"ViT": ("class",), "DeiT": ("class", "distillation")}[kind]
    for row, answer in enumerate(answers):
        probabilities = dict(enumerate(expected.logits[row].softmax(-1).tolist()))
        assert {LABELS[key]: pytest.approx(value, abs=1e-4) for key, value in probabilities.items()} == {
            each.label: each.probability for each in answer.prediction.classes
        }
        for layer, weights in enumerate(expected.attentions):
            found = answer[f"encoder.{layer}.self"]
            assert found.key.labels[: len(leading)] == leading
            np.testing.assert_allclose(found.weights, weights[row].numpy(), atol=1e-4)


@pytest.mark.parametrize("kind", PROCESSORS)
def test_pixels_are_those_that_the_processor_states(kind: str, folders: dict[str, Path]) -> None:
    preprocessor = read_model(folders[kind]).card.preprocessor()
    for size in ((SIZE, SIZE), (70, 45), (20, 90)):
        data = picture(*size)
        row = preprocessor.row({"image": Image(data)}, field=())
        np.testing.assert_allclose(row.tensors["pixels"], pixels_of(kind, data), atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"do_reduce_labels": True}, "states do_reduce_labels True, which is not classified"),
        ({"do_normalize": False}, "states do_normalize False; it can be True"),
        ({"size": {"shortest_edge": 32}}, "states the size of the shorter side without do_center_crop"),
        ({"size": {"longest_edge": 32}}, "it is a number, or height and width"),
        ({"size": 64}, "makes pictures of 64 x 64 pixels; the model takes 32 x 32"),
        ({"resample": 5}, "states resample 5"),
        ({"image_mean": [0.5]}, r"states image_mean \[0.5\]; the model has 3 channels"),
    ],
)
def test_a_processor_that_makes_other_pixels_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_model(write(tmp_path / "vit", "ViT", **changes))


def test_a_model_without_a_processor_or_with_cut_patches_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path / "vit", "ViT")
    change_config(folder, patch_size=7)
    with pytest.raises(CheckpointError, match="pictures of 32 in patches of 7"):
        read_model(folder)
    change_config(folder, patch_size=PATCH)
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no preprocessor_config\.json"):
        read_model(folder)


@pytest.mark.parametrize("kind", PROCESSORS)
def test_every_field_that_transformers_writes_is_classified(kind: str, folders: dict[str, Path]) -> None:
    model = read_model(folders[kind])
    assert "encoder_stride" in model.card.description.source.ignored_fields
