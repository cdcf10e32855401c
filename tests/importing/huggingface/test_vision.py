"""Imported encoders of pictures answer as transformers does, from the file of a picture to classes and maps."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image as Pillow

import limelight
from limelight_bundle.values import Image
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from tests.importing.huggingface.checkpoints import change_config, write_json
from tests.kit.serving import serving

SIZE, PATCH = 32, 8
LABELS = {0: "cat", 1: "dog", 2: "mat"}
SIZES = ((SIZE, SIZE), (70, 45), (20, 90))
_STRETCHED = {
    "size": {"height": SIZE, "width": SIZE},
    "resample": 3,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.5, 0.25, 0.2],
}
# Cuts pictures to fewer patches than the model has positions for.
_DINO = {
    **_STRETCHED,
    "image_processor_type": "BitImageProcessor",
    "size": {"shortest_edge": 28},
    "do_center_crop": True,
    "crop_size": {"height": SIZE - PATCH, "width": SIZE - PATCH},
    "do_convert_rgb": True,
}


@dataclass(frozen=True)
class Kind:
    """An encoder of pictures: what its files state, and the tokens in front of its patches."""

    processor: Mapping[str, Any]
    leading: tuple[str, ...] = ("class",)
    config: Mapping[str, Any] = field(default_factory=dict)
    ignored: str = "hidden_dropout_prob"


KINDS = {
    "ViT": Kind(
        {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            **_STRETCHED,
            "resample": 2,
        },
        ignored="encoder_stride",
    ),
    "DeiT": Kind(
        {
            **_STRETCHED,
            "size": {"height": SIZE + 8, "width": SIZE + 8},
            "do_center_crop": True,
            "crop_size": {"height": SIZE, "width": SIZE},
        },
        ("class", "distillation"),
        ignored="encoder_stride",
    ),
    "ViTMSN": Kind(_STRETCHED),
    "Dinov2": Kind(_DINO, config={"mlp_ratio": 2, "use_swiglu_ffn": True}, ignored="drop_path_rate"),
    "Dinov2WithRegisters": Kind(
        _DINO, ("class", *(f"register {number}" for number in range(3))), {"mlp_ratio": 2, "num_register_tokens": 3}
    ),
    "Beit": Kind(
        {**_STRETCHED, "do_reduce_labels": False},
        config={"use_relative_position_bias": True, "use_mean_pooling": False},
        ignored="pool_scales",
    ),
}


def write(folder: Path, kind: str, head: str = "ForImageClassification", **processor: Any) -> Path:
    """Write a checkpoint with random weights."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=SIZE,
        patch_size=PATCH,
        id2label=LABELS,
        initializer_range=0.3,
        **({} if kind.startswith("Dino") else {"intermediate_size": 48}),
        **KINDS[kind].config,
    )
    model = getattr(transformers, f"{kind}{head}")(config).eval()
    for name, parameter in model.named_parameters():
        if "position" in name or "token" in name:  # of which some begin as zeros
            torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    write_json(folder / "preprocessor_config.json", {**KINDS[kind].processor, **processor})
    return folder


def picture(rows: int, columns: int) -> bytes:
    pixels = np.random.default_rng(rows).integers(0, 256, (rows // 4 + 1, columns // 4 + 1, 3), dtype=np.uint8)
    file = BytesIO()
    Pillow.fromarray(pixels).resize((columns, rows), Pillow.Resampling.BICUBIC).save(file, "PNG")
    return file.getvalue()


def pixels_of(folder: Path, data: bytes) -> torch.Tensor:
    """The pixels that transformers' own processor of a checkpoint makes of a picture, [1, channel, row, column]."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    return processor(Pillow.open(BytesIO(data)), return_tensors="pt").pixel_values


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: write(root / kind.lower(), kind) for kind in KINDS}


@pytest.fixture(scope="module")
def client(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[limelight.Client]:
    repository = tmp_path_factory.mktemp("repository")
    for folder in folders.values():
        import_checkpoint(folder, repository)
    with serving(repository) as running, limelight.Client(running.server.address) as caller:
        yield caller


@pytest.mark.parametrize("kind", KINDS)
def test_classes_maps_and_hidden_states_of_pictures_equal_transformers(
    kind: str, folders: dict[str, Path], client: limelight.Client
) -> None:
    files = [picture(*size) for size in SIZES]
    answers = client.attend(
        kind.lower(), [{"image": limelight.Image(each)} for each in files], hidden=limelight.Hidden()
    )
    folder = folders[kind]
    model = transformers.AutoModelForImageClassification.from_pretrained(folder, attn_implementation="eager").eval()
    pixels = torch.cat([pixels_of(folder, each) for each in files])
    with torch.no_grad():
        expected = model(pixels, output_attentions=True, output_hidden_states=True)
    leading = KINDS[kind].leading
    for row, answer in enumerate(answers):
        probabilities = dict(enumerate(expected.logits[row].softmax(-1).tolist()))
        assert {LABELS[key]: pytest.approx(value, abs=1e-4) for key, value in probabilities.items()} == {
            each.label: each.probability for each in answer.prediction.classes
        }
        assert len(answer.maps) == len(expected.attentions) == 2
        for layer, weights in enumerate(expected.attentions):
            found = answer[f"encoder.{layer}.self"]
            assert found.key.labels[: len(leading) + 1] == (*leading, "r0c0")
            np.testing.assert_allclose(found.weights, weights[row].numpy(), atol=1e-4)
        assert len(answer.prediction.hidden) == len(expected.hidden_states) == 3
        for layer, vectors in enumerate(expected.hidden_states):
            found = answer.prediction.hidden[f"encoder.hidden.{layer}"]
            np.testing.assert_allclose(found.vectors, vectors[row].numpy(), atol=1e-4 * float(vectors.abs().max()))


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_those_of_the_processor(kind: str, folders: dict[str, Path]) -> None:
    preprocessor = read_model(folders[kind]).card.preprocessor()
    for size in SIZES:
        data = picture(*size)
        row = preprocessor.row({"image": Image(data)}, field=())
        np.testing.assert_allclose(row.tensors["pixels"], pixels_of(folders[kind], data)[0].numpy(), atol=1e-6)


@pytest.mark.parametrize(("kind", "name"), [("ViT", ""), ("Dinov2", "pooler_output"), ("Beit", "pooler_output")])
def test_vectors_of_pictures_equal_transformers(kind: str, name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / kind.lower(), kind, "Model")
    trained, pixels = read_model(folder), pixels_of(folder, picture(70, 45))
    library = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        output = library(pixels)
        vector = output[name][0] if name else output.last_hidden_state[0, 0]
        found = trained.model(pixels=pixels).outputs["vector"][0]
    torch.testing.assert_close(found, vector / vector.norm())


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
    cut = write(tmp_path / "dinov2", "Dinov2", crop_size={"height": 25, "width": 25})
    with pytest.raises(CheckpointError, match="makes pictures of 25 x 25 pixels, which are no whole patches of 8"):
        read_model(cut)
    change_config(folder, patch_size=PATCH)
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no preprocessor_config\.json"):
        read_model(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_that_transformers_writes_is_classified(kind: str, folders: dict[str, Path]) -> None:
    written = json.loads(getattr(transformers, f"{kind}Config")().to_json_string(use_diff=False))
    assert KINDS[kind].ignored in ARCHITECTURES[written["model_type"]].fields.check(written)
