"""Weights that are stored in 16 bits: half the room, and the arithmetic of the rounded model in PyTorch."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

import limelight
from limelight.v1 import model_pb2
from limelight_bundle.reader import BundleFolder
from limelight_export.conversion.half_weights import round_to_float16, store_as_float16
from limelight_export.errors import ExportError
from limelight_export.execution.pytorch_runner import copy_for_export
from limelight_export.pipeline import export_model
from limelight_export.precision import Precision
from tests.export.test_export_precision import wide
from tests.kit import exports, small, tiny
from tests.kit.serving import serving

GRAPH = "model.onnx"
TEXT = "the cat sat on a mat ."


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, BundleFolder]:
    """The wide reader, with whole weights and with halves."""
    repository = tmp_path_factory.mktemp("halved")
    return {half: exports.export_model(wide(), repository, half_weights=half) for half in (False, True)}


def test_a_graph_with_half_weights_takes_half_the_room(folders: dict[bool, BundleFolder]) -> None:
    sizes = {}
    for half, folder in folders.items():
        model = onnx.load(str(folder.file(GRAPH)))
        sizes[half] = sum(len(each.raw_data) for each in model.graph.initializer)
    assert 0.5 <= sizes[True] / sizes[False] < 0.6


def test_it_computes_in_float32_and_says_what_rounding_changed(folders: dict[bool, BundleFolder]) -> None:
    description = folders[True].bundle.description
    assert description.precision == model_pb2.PRECISION_FLOAT32
    assert folders[True].bundle.tolerances == folders[False].bundle.tolerances
    (metric,) = description.metrics
    assert 0 < abs(metric.value - metric.float32_value) < 1e-2
    trained = wide()
    assert trained.judge is not None
    assert metric.float32_value == pytest.approx(trained.judge(copy_for_export(trained.model))[0].value)


def test_it_is_served_as_pytorch_answers_with_rounded_weights(folders: dict[bool, BundleFolder]) -> None:
    texts = [{"text": text} for text in (TEXT, "dog", "a dog ran")]
    repository = folders[True].path.parent.parent
    with serving(repository) as running, limelight.Client(running.server.address) as client:
        answers = [*client.attend("reader", texts[:1], version=2), client.attend("reader", texts, version=2)[0]]
        (before,) = client.attend("reader", texts[:1], version=1)
    ids = torch.tensor([[4 + tiny.WORDS.index(word) for word in TEXT.split()]])
    with torch.no_grad():
        expected = round_to_float16(wide()).model.eval()(ids=ids, ids_mask=torch.ones_like(ids, dtype=torch.bool))
    for answer in answers:
        np.testing.assert_allclose(answer.prediction.outputs["logits"], expected.outputs["logits"][0], atol=1e-4)
        for found in answer.maps:
            np.testing.assert_allclose(
                found.weights, expected.maps[found.name].numpy().reshape(found.weights.shape), atol=1e-5
            )
    assert not np.array_equal(before.prediction.outputs["logits"], answers[0].prediction.outputs["logits"])


def test_what_float16_does_not_have_stays_as_it_is() -> None:
    trained = wide()
    with torch.no_grad():
        trained.model.embedding.weight[3, 3] = 1e6
    model = round_to_float16(trained).model
    assert torch.equal(model.embedding.weight, trained.model.embedding.weight)
    assert not torch.equal(model.classify.weight, trained.model.classify.weight)

    third = onnx.numpy_helper.from_array(np.full((32, 32), 1 / 3, np.float32), "third")
    half = onnx.numpy_helper.from_array(np.full((32, 32), 0.5, np.float32), "half")
    graph = onnx.helper.make_graph([], "weights", [], [], [third, half])
    changed = store_as_float16(onnx.helper.make_model(graph)).graph
    assert [each.name for each in changed.initializer] == ["third", "half.half"]
    assert [(*each.input, *each.output) for each in changed.node] == [("half.half", "half")]


def test_models_that_put_out_tokens_can_have_half_weights(tmp_path: Path) -> None:
    folder = export_model(small.trained("bahdanau"), tmp_path, half_weights=True)
    assert {each.file for each in folder.bundle.graphs} == {"encoder.onnx", "step.onnx", "intervened_step.onnx"}


@pytest.mark.parametrize("precision", [Precision.FLOAT16, Precision.INT8])
def test_other_precisions_have_no_half_weights(precision: Precision, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=f"{precision} weights are small already"):
        export_model(wide(), tmp_path, precision=precision, half_weights=True)
    assert not list(tmp_path.iterdir())


def test_figures_that_cannot_be_measured_again_are_not_repeated(tmp_path: Path) -> None:
    trained = wide()
    metrics = trained.judge(trained.model) if trained.judge else []
    with pytest.raises(ExportError, match="first score must be measured again with rounded weights"):
        export_model(replace(trained, judge=None, metrics=tuple(metrics)), tmp_path, half_weights=True)
