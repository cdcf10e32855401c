"""Layers that see real tokens alone, as an exported graph has them."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from limelight_bundle.maps import VALUES
from limelight_bundle.reader import BundleFolder
from limelight_bundle.values import Array
from limelight_export.surgery.fused_attention import FUSED_FROM
from limelight_models.cards.card import TrainedModel
from limelight_models.export_names import DOMAIN
from tests.kit import tiny

Exported = Callable[[str], tuple[TrainedModel, BundleFolder]]
MAP, PROBED = "encoder.0.self", "encoder.1.self"


def batch(lengths: Sequence[int], seed: int = 0) -> dict[str, Array]:
    """Make rows of words of these lengths, padded."""
    mask = np.arange(max(*lengths, 1, 1)) < np.array(lengths)[:, np.newaxis]
    return {"ids": np.random.default_rng(seed).integers(1, tiny.VOCABULARY, mask.shape) * mask, "ids_mask": mask}


def opened(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def packed(exported: Exported) -> tuple[TrainedModel, BundleFolder, onnx.ModelProto]:
    trained, folder = exported("packed_reader")
    return trained, folder, onnx.load(folder.file("model.onnx"))


@pytest.fixture(scope="module")
def session(packed: tuple[TrainedModel, BundleFolder, onnx.ModelProto]) -> onnxruntime.InferenceSession:
    return opened(packed[2])


lengths_of_rows = st.lists(st.integers(0, 12) | st.just(FUSED_FROM + 3), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(lengths_of_rows, st.integers(0, 99), st.booleans())
def test_the_answer_and_the_maps_are_pytorchs_whatever_the_lengths(
    packed: tuple[TrainedModel, BundleFolder, onnx.ModelProto],
    session: onnxruntime.InferenceSession,
    lengths: list[int],
    seed: int,
    asks: bool,
) -> None:
    trained, folder, _ = packed
    tensors = batch(lengths, seed)
    with torch.no_grad():
        expected = trained.model.eval()(**{name: torch.from_numpy(array) for name, array in tensors.items()})
    bindings = {each.map: each for each in folder.bundle.maps if each.quantity != VALUES}
    probe, queries = bindings[PROBED].probe, np.unique([0, max(lengths) // 2])
    asked: dict[str, Array] = {}
    if asks:
        asked = {bindings[MAP].gate: np.array(True), probe.queries_input: queries, probe.heads_input: np.array([3, 1])}
    logits, whole, rows = session.run(["logits", bindings[MAP].output, probe.output], tensors | asked)
    np.testing.assert_allclose(logits, expected.outputs["logits"], rtol=1e-4, atol=1e-5)
    if asks:
        np.testing.assert_allclose(whole, expected.maps[MAP], atol=1e-5)
        np.testing.assert_allclose(rows, expected.maps[PROBED].numpy()[:, [3, 1]][:, :, queries], atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=2, max_size=6))
def test_a_row_is_answered_alike_alone_and_in_a_batch(
    session: onnxruntime.InferenceSession, lengths: list[int]
) -> None:
    tensors = batch(lengths)
    (together,) = session.run(["logits"], tensors)
    for row, length in enumerate(lengths):
        (alone,) = session.run(["logits"], {name: each[row : row + 1, :length] for name, each in tensors.items()})
        np.testing.assert_allclose(together[row], alone[0], rtol=1e-4, atol=1e-5)


def test_what_is_between_packing_and_unpacking_sees_real_tokens_alone(
    packed: tuple[TrainedModel, BundleFolder, onnx.ModelProto],
) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(packed[2])
    weights = {each.name for each in model.graph.initializer if [*each.dims] == [tiny.SIZE, tiny.SIZE]}
    products = [node.output[0] for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in weights]
    assert len(products) == 8
    for name in products:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    for found in opened(model).run(products, batch([7, 1, 4])):
        assert found.shape == (1, 12, tiny.SIZE)


@pytest.mark.parametrize("broken", [0, 1, 2])
def test_what_is_not_finite_in_one_row_stays_there(
    broken: int, packed: tuple[TrainedModel, BundleFolder, onnx.ModelProto]
) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(packed[2])
    (embedding,) = [each for each in model.graph.initializer if [*each.dims] == [tiny.VOCABULARY, tiny.SIZE]]
    values = numpy_helper.to_array(embedding).copy()
    values[-1] = np.nan
    embedding.CopyFrom(numpy_helper.from_array(values, embedding.name))
    tensors = batch([3, 9, 2])
    tensors["ids"] %= tiny.VOCABULARY - 1
    tensors["ids"][broken, 0] = tiny.VOCABULARY - 1
    (logits,) = opened(model).run(["logits"], tensors)
    assert [bool(np.isfinite(row).all()) for row in logits] == [row != broken for row in range(3)]


def test_the_bundle_says_by_what_mask_its_graph_packs_and_no_mark_is_left(
    packed: tuple[TrainedModel, BundleFolder, onnx.ModelProto], exported: Exported
) -> None:
    _, folder, model = packed
    assert [list(graph.packed) for graph in folder.bundle.graphs] == [["ids_mask"], ["ids_mask"]]
    assert DOMAIN not in {each.domain for each in [*model.graph.node, *model.opset_import]}
    assert not exported("long_reader")[1].bundle.graphs[0].packed
