"""DETR finds the objects that transformers finds, with the maps that it computes, from the file of a picture."""

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
from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil

import limelight
from limelight.cli import main
from limelight_bundle.values import Image
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.importer import import_checkpoint, read_model
from limelight_export.importing.huggingface.tasks.task import ImportOptions
from tests.importing.huggingface.checkpoints import change_config, write_json
from tests.importing.huggingface.test_vision import picture
from tests.importing.huggingface.test_vision import write as write_vision
from tests.kit.serving import Running, serving
from tests.service.open_inference.calls import infer, strings

NAME, LIBRARY = "detr", "DetrForObjectDetection"
ROWS, COLUMNS, CELL, QUERIES = 48, 64, 8, 5
LABELS = {0: "cat", 1: "dog", 2: "mat"}
THRESHOLD = 0.53
SIZES = ((ROWS, COLUMNS), (70, 45), (33, 97))
MAPS = tuple(
    f"{stack}.{layer}.{kind}"
    for stack, kind in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
    for layer in range(2)
)
PROCESSOR = {
    "image_processor_type": "DetrImageProcessor",
    "do_convert_annotations": True,
    "do_normalize": True,
    "do_pad": True,
    "do_rescale": True,
    "do_resize": True,
    "format": "coco_detection",
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "pad_size": None,
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": ROWS, "width": COLUMNS},
}
KEEPS_ASPECT = {"size": {"shortest_edge": 800, "longest_edge": 1333}}


def write(folder: Path, **processor: Any) -> Path:
    """Write a checkpoint with random weights."""
    torch.manual_seed(4)
    backbone = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", out_features=["stage2"]
    )
    config = transformers.DetrConfig(
        use_timm_backbone=False,
        backbone_config=backbone,
        num_queries=QUERIES,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        id2label=LABELS,
    )
    model = transformers.DetrForObjectDetection(config).eval()
    # Queries whose answers differ attend sharply.
    for module, deviation in ((model, 0.3), (model.model.decoder, 1.0), (model.model.query_position_embeddings, 1.0)):
        for parameter in module.parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=deviation)
    model.save_pretrained(folder)
    write_json(folder / "preprocessor_config.json", PROCESSOR | processor)
    return folder


@pytest.fixture(scope="module")
def running(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    repository = tmp_path_factory.mktemp("repository")
    import_checkpoint(folder, repository, options=ImportOptions(threshold=THRESHOLD))
    with serving(repository) as server:
        yield server


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[limelight.Client]:
    with limelight.Client(running.server.address) as caller:
        yield caller


def processor() -> DetrImageProcessorPil:
    return DetrImageProcessorPil(**{name: value for name, value in PROCESSOR.items() if "type" not in name})


def expected_boxes(output: Any, data: bytes, row: int = 0) -> list[tuple[str, float, list[float]]]:
    """Detections of transformers itself, most probable first."""
    sizes = [Pillow.open(BytesIO(data)).size[::-1]]
    (found,) = processor().post_process_object_detection(output, threshold=THRESHOLD, target_sizes=sizes)
    columns = (found[name].tolist() for name in ("labels", "scores", "boxes"))
    return sorted(
        ((LABELS[label], score, box) for label, score, box in zip(*columns, strict=True)), key=lambda each: -each[1]
    )


def run_library(library: Any, data: bytes) -> Any:
    tensors = processor()(Pillow.open(BytesIO(data)), return_tensors="pt")
    with torch.no_grad():
        return library(**tensors, output_attentions=True)


def test_boxes_and_maps_equal_transformers(client: limelight.Client, library: Any) -> None:
    files = [picture(*size) for size in SIZES]
    answers = client.attend("detr", [{"image": limelight.Image(each)} for each in files])
    count = 0
    for data, answer in zip(files, answers, strict=True):
        output = run_library(library, data)
        expected = expected_boxes(output, data)
        count += len(expected)
        likely = output.logits[0].softmax(-1)[:, :-1].max(-1).values
        for box, (label, probability, edges) in zip(answer.prediction.boxes, expected, strict=True):
            assert (box.label, LABELS[box.index]) == (label, label)
            assert box.probability == pytest.approx(probability, abs=1e-5)
            assert [box.left, box.top, box.right, box.bottom] == pytest.approx(edges, abs=1e-3)
            assert likely[box.query] == pytest.approx(probability, abs=1e-6)
        np.testing.assert_allclose(answer.prediction.outputs["logits"], output.logits[0], atol=1e-4)
        np.testing.assert_allclose(answer.prediction.outputs["boxes"], output.pred_boxes[0], atol=1e-5)
        of_stack = output.encoder_attentions, output.decoder_attentions, output.cross_attentions
        weights = [each for layers in of_stack for each in layers]
        assert {each.name for each in answer.maps} == set(MAPS)
        for name, each in zip(MAPS, weights, strict=True):
            np.testing.assert_allclose(answer[name].weights, each[0], atol=1e-4)
    assert 0 < count < QUERIES * len(files)


def test_a_query_of_the_cross_attention_is_that_of_a_box(client: limelight.Client) -> None:
    prediction = client.predict("detr", {"image": limelight.Image(picture(70, 45))})
    best = prediction.boxes[0]
    answer = client.attend(
        "detr",
        {"image": limelight.Image(picture(70, 45))},
        maps="decoder.*.cross",
        queries=[best.query],
        max_classes=1,
    )
    assert [each.query for each in answer.prediction.boxes] == [best.query]
    for each in answer.maps:
        assert each.query.labels == (f"query {best.query}",)
        assert each.weights.shape == (2, 1, ROWS // CELL * (COLUMNS // CELL))
        region = each.key.grid.region if each.key.grid else None
        assert region == limelight.Region(0, 0, 45, 70)


def test_boxes_are_on_the_picture_as_its_exif_orientation_shows_it(client: limelight.Client) -> None:
    upright = Pillow.open(BytesIO(picture(70, 45)))
    turned, exif, file = upright.transpose(Pillow.Transpose.ROTATE_90), Pillow.Exif(), BytesIO()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    turned.save(file, "PNG", exif=exif)
    expected = client.predict("detr", {"image": limelight.Image(picture(70, 45))})
    assert client.predict("detr", {"image": limelight.Image(file.getvalue())}).boxes == expected.boxes


def test_tensors_get_edges_that_are_parts_of_the_picture(folder: Path, client: limelight.Client) -> None:
    data = picture(70, 45)
    pixels = processor()(Pillow.open(BytesIO(data)), return_tensors="np").pixel_values[0]
    of_file = client.predict("detr", {"image": limelight.Image(data)})
    of_tensor = client.predict("detr", {"pixels": pixels})
    (result,) = of_tensor.results.values()
    assert isinstance(result, limelight.Boxes) and result.relative
    for one, other in zip(of_file.boxes, of_tensor.boxes, strict=True):
        assert [one.left, one.top, one.right, one.bottom] == pytest.approx(
            [other.left * 45, other.top * 70, other.right * 45, other.bottom * 70], abs=1e-3
        )


def test_open_inference_has_boxes_as_tensors(running: Running, client: limelight.Client) -> None:
    files = [picture(*size) for size in SIZES]
    answer = infer(running.channel, "detr", {"image": strings(files)})
    assert {"objects", "objects.box", "objects.probability", "objects.query", "logits", "boxes"} == set(answer)
    predictions = client.predict("detr", [{"image": limelight.Image(each)} for each in files])
    for row, each in enumerate(predictions):
        count = len(each.boxes)
        assert [label.decode() for label in answer["objects"][row][:count]] == [box.label for box in each.boxes]
        edges = [[box.left, box.top, box.right, box.bottom] for box in each.boxes]
        np.testing.assert_allclose(answer["objects.box"][row][:count], np.reshape(edges, (-1, 4)), atol=1e-3)
        assert answer["objects.query"][row][:count].tolist() == [box.query for box in each.boxes]
        assert not answer["objects.probability"][row][count:].any()


def test_the_command_line_shows_each_box(
    running: Running, client: limelight.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(picture(70, 45))
    boxes = client.predict("detr", {"image": limelight.Image(file.read_bytes())}).boxes
    arguments = [str(file), "--target", running.server.address]
    assert main(["predict", "detr", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{each.probability:.4f}  {each.label}  "
        f"[{each.left:.6g} {each.top:.6g} {each.right:.6g} {each.bottom:.6g}]  query {each.query}"
        for each in boxes
    ]
    assert main(["predict", "detr", *arguments, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["results"]["objects"]
    assert (shown["kind"], shown["boxes"][0]["label"]) == ("boxes", boxes[0].label)
    assert main(["attend", "detr", *arguments, "--map", "decoder.1.cross", "--query", str(boxes[0].query)]) == 0
    assert f"{boxes[0].label} {boxes[0].probability:.2f} (query {boxes[0].query})" in capsys.readouterr().out


def test_pixels_are_those_of_the_processor(folder: Path) -> None:
    preprocessor = read_model(folder).card.preprocessor()
    for size in SIZES:
        data = picture(*size)
        expected = processor()(Pillow.open(BytesIO(data)), return_tensors="np").pixel_values[0]
        row = preprocessor.row({"image": Image(data)}, field=())
        np.testing.assert_allclose(row.tensors["pixels"], expected, atol=1e-6)


def test_a_size_in_place_of_one_that_keeps_the_aspect_ratio(tmp_path: Path) -> None:
    folder = write(tmp_path / "detr", **KEEPS_ASPECT)
    with pytest.raises(CheckpointError, match="keeps the aspect ratio; a bundle takes pictures of one size: --size"):
        read_model(folder)
    card = read_model(folder, options=ImportOptions(size=(24, 40))).card.description
    (grid,) = (each.grid for each in card.label_sets if each.HasField("grid"))
    assert (grid.rows, grid.columns, card.results[0].boxes.threshold) == (3, 5, 0.5)
    with pytest.raises(CheckpointError, match="not whole cells of 8 x 8; name multiples of 8: --size 24x40"):
        read_model(folder, options=ImportOptions(size=(24, 41)))


def test_a_configuration_of_an_older_version_is_read(tmp_path: Path, folder: Path) -> None:
    older = write(tmp_path / "detr")
    backbone = json.loads((older / "config.json").read_text())["backbone_config"]
    fields = dict.fromkeys(("dilation", "backbone", "backbone_kwargs", "use_pretrained_backbone"))
    change_config(
        older,
        **fields,
        use_timm_backbone=False,
        scale_embedding=False,
        max_position_embeddings=1024,
        num_hidden_layers=2,
        classifier_dropout=0.0,
        backbone_config={**backbone, "tf_legacy_loss": False, "torch_dtype": "float32", "num_beams": 1},
    )
    former, latter = (read_model(each) for each in (older, folder))
    pixels = torch.randn((1, 3, ROWS, COLUMNS), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        answers = [each.model(pixels=pixels).outputs for each in (former, latter)]
    assert all(torch.equal(answers[0][name], answers[1][name]) for name in ("logits", "boxes"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 800, "max_size": 1333}, "states size 800, which keeps the aspect ratio"),
        ({"do_center_crop": True}, "states do_center_crop True; boxes are of the whole picture"),
        ({"pad_size": {"height": 64, "width": 64}}, "states pad_size .*; boxes are of the whole picture"),
        ({"do_reduce_labels": True}, "states do_reduce_labels True, which is not classified"),
    ],
)
def test_a_processor_that_makes_other_pixels_is_refused(
    folder: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_model(write(tmp_path / "detr", **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_timm_backbone": True, "backbone": "resnet50"}, "states use_timm_backbone True.* timm is not read"),
        ({"backbone_config": None}, "states no backbone_config of transformers: a backbone of timm is not read"),
        ({"backbone_config": {"model_type": "timm_backbone"}}, "a backbone of timm is not read"),
        ({"backbone_config": {"model_type": "swin"}}, "states a backbone_config of 'swin'; it can be 'resnet'"),
        ({"backbone_config": {"model_type": "resnet", "groups": 2}}, "states groups 2, which is not classified"),
        ({"dilation": True}, "states dilation True, which is not computed"),
        ({"position_embedding_type": "learned"}, "states position_embedding_type 'learned'"),
        ({"architectures": ["DetrForSegmentation"]}, "name a task: --task object-detection"),
    ],
)
def test_a_configuration_that_is_not_computed_is_refused(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    folder = write(tmp_path / "detr")
    change_config(folder, **changes)
    with pytest.raises(CheckpointError, match=message):
        read_model(folder)


def test_options_of_boxes_are_for_models_that_find_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_vision(tmp_path / "vit", "ViT")
    for options in (ImportOptions(size=(32, 32)), ImportOptions(threshold=0.0)):
        with pytest.raises(CheckpointError, match="ViT finds no objects; leave out --size and --threshold"):
            read_model(folder, options=options)
    assert main(["import", "hf", str(folder), "--repository", str(tmp_path), "--size", "800"]) == 2
    assert "--size 800: it is rows and columns, such as 800x1056" in capsys.readouterr().err
