"""Effective maps in an exported graph: what attention without a matrix comes to, for the queries that are asked for."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from limelight_bundle.interventions import INTERVENED_GRAPH
from limelight_bundle.maps import VALUES
from limelight_bundle.reader import BundleFolder
from limelight_bundle.values import Array
from limelight_export.pipeline import export_model
from limelight_export.surgery.subgraphs import all_nodes
from limelight_models.cards.card import TrainedModel
from limelight_models.export_names import DOMAIN
from tests.kit import small

MAPS = ("encoder.0.self", "encoder.1.self")
PEAK = r"""
import re, sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
tokens = numpy.ones((1, int(sys.argv[2])), numpy.int64)
session.run(["logits"], {"token_ids": tokens, "token_mask": tokens.astype(bool)})
print(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1])
"""


@pytest.fixture(scope="module", params=["linear-transformer", "linear-transformer-causal"])
def exported(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TrainedModel, BundleFolder]:
    torch.manual_seed(0)
    trained = small.trained(request.param)
    return trained, export_model(trained, tmp_path_factory.mktemp("effective"))


def batch(*lengths: int) -> dict[str, Array]:
    mask = np.arange(max(lengths)) < np.array(lengths)[:, np.newaxis]
    ids = np.random.default_rng(0).integers(1, small.VOCABULARY, mask.shape) * mask
    return {"token_ids": ids, "token_mask": mask}


@pytest.mark.parametrize("lengths", [(1,), (7, 1, 4), (150, 131)])
def test_whole_maps_and_rows_of_them_are_pytorchs_together_and_apart(
    exported: tuple[TrainedModel, BundleFolder], lengths: tuple[int, ...]
) -> None:
    trained, folder = exported
    session = onnxruntime.InferenceSession(folder.file("model.onnx"), providers=["CPUExecutionProvider"])
    first, second = (each for each in folder.bundle.maps if each.quantity != VALUES)
    assert (first.map, second.map) == MAPS
    tensors, heads = batch(*lengths), np.array([1])
    queries = np.unique([max(lengths) - 1, 0])
    with torch.no_grad():
        expected = trained.model(**{name: torch.from_numpy(array) for name, array in tensors.items()})
    wanted = [expected.maps[name].numpy() for name in MAPS]
    names = ["logits", first.output, second.output, first.probe.output, second.probe.output]
    rows_alone = {second.probe.heads_input: heads, second.probe.queries_input: queries}
    both = {first.gate: np.array(True), first.probe.heads_input: heads, first.probe.queries_input: queries}
    for asked, whole, rows in (
        ({}, (), ()),
        (rows_alone, (), (1,)),
        (both, (0,), (0,)),
        (both | rows_alone, (0,), (0, 1)),
    ):
        logits, *found = session.run(names, tensors | asked)
        np.testing.assert_allclose(logits, expected.outputs["logits"], rtol=1e-4, atol=1e-5)
        for number in (0, 1):
            if number in whole:
                np.testing.assert_allclose(found[number], wanted[number], atol=1e-6)
            else:
                assert found[number].size == 0
            if number in rows:
                np.testing.assert_allclose(found[2 + number], wanted[number][:, heads][:, :, queries], atol=1e-6)
            else:
                assert found[2 + number].size == 0


def test_what_nobody_asks_for_is_behind_an_if_and_no_marker_is_left(
    exported: tuple[TrainedModel, BundleFolder],
) -> None:
    folder = exported[1]
    model = onnx.load(folder.file("model.onnx"))
    used = [each.domain for each in all_nodes(model.graph)] + [each.domain for each in model.opset_import]
    assert DOMAIN not in used
    makers = {name: node.op_type for node in model.graph.node for name in node.output}
    assert {makers[name] for each in folder.bundle.maps for name in (each.output, each.probe.output) if name} == {"If"}
    assert [each.name for each in folder.bundle.graphs] == ["main", INTERVENED_GRAPH]
    assert {each.map for each in folder.bundle.maps if each.head_scales} == set(MAPS)


def test_memory_grows_with_the_tokens_and_not_with_their_square(exported: tuple[TrainedModel, BundleFolder]) -> None:
    file = Path(exported[1].file("model.onnx"))
    few, many = (
        int(subprocess.run([sys.executable, "-c", PEAK, file, str(count)], capture_output=True, check=True).stdout)
        for count in (2048, 16_384)
    )
    assert many - few < 2**17  # KiB; a map of 2 heads would take 2 GiB a layer
