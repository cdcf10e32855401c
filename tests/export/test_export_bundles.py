"""Written bundles, read back and run as a server would run them."""

import getpass
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from torch import nn

from limelight_bundle.attention_drift import FEWEST_INPUTS, ROWS
from limelight_bundle.attention_signals import is_observable
from limelight_bundle.maps import VALUES, canonical, cut, nested_mask_name
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_bundle.rows import BoundTensor, Row, bound_tensors, collate
from limelight_bundle.samples import read_samples
from limelight_bundle.tolerance import Tolerances
from limelight_bundle.values import Array
from limelight_bundle.wire import instance_from_wire
from limelight_export.pipeline import export_model
from limelight_models.cards.card import TrainedModel
from limelight_models.zoo.long.dynamic_span import SpannedHeads
from tests.export.conftest import MODELS
from tests.kit import small, tiny

Exported = Callable[[str], tuple[TrainedModel, BundleFolder]]
ONE_PASS = ["reader", "documents", "drawing"]


def run(folder: BundleFolder, graph: str, tensors: dict[str, Array]) -> dict[str, Array]:
    """Run a graph as the bundle states it."""
    stated = next(each for each in folder.bundle.graphs if each.name == graph)
    session = onnxruntime.InferenceSession(folder.file(stated.file), providers=["CPUExecutionProvider"])
    outputs = session.run(list(stated.outputs), {name: tensors[name] for name in stated.inputs})
    return dict(zip(stated.outputs, outputs, strict=True))


@pytest.fixture(params=MODELS)
def bundle_folder(request: pytest.FixtureRequest, exported: Exported) -> BundleFolder:
    return exported(request.param)[1]


def test_the_bundle_passes_every_check_of_a_reader(bundle_folder: BundleFolder) -> None:
    again = read_bundle(bundle_folder.path)
    assert again.digest == bundle_folder.digest
    assert again.bundle.description.version == 1
    assert again.bundle.description.metrics[0].value == 0.5
    assert again.bundle.description.training_data.licence == "CC0-1.0"


def test_preprocessing_of_the_bundle_makes_the_very_tensors_of_its_samples(bundle_folder: BundleFolder) -> None:
    preprocessor = Preprocessor(bundle_folder)
    samples = read_samples(bundle_folder)
    assert len(samples) == 2
    for example, sample in zip(bundle_folder.bundle.description.examples, samples, strict=True):
        row = preprocessor.row(instance_from_wire(example, ""))
        assert set(row.tensors) == set(sample.tensors) == {"ids", "ids_mask"}
        for name, array in sample.tensors.items():
            assert row.tensors[name].dtype == array.dtype
            np.testing.assert_array_equal(row.tensors[name], array)


@pytest.mark.parametrize("name", ONE_PASS)
def test_all_samples_in_one_padded_batch_get_their_own_answers(name: str, exported: Exported) -> None:
    folder = exported(name)[1]
    description = folder.bundle.description
    rows = [Preprocessor(folder).row(instance_from_wire(each, "")) for each in description.examples]
    if name == "drawing":
        rows = [
            Row({**row.tensors, "luck": np.full(row.sizes["word"], 0.5, np.float32)}, row.sizes, row.labels)
            for row in rows
        ]
    bound = bound_tensors(description.inputs, folder.bundle.tensors)
    noise = [BoundTensor(each.tensor) for each in folder.bundle.noise]
    answered = run(folder, "main", collate(rows, [*bound.values(), *noise]))
    tolerances = Tolerances(folder.bundle.tolerances, "CPUExecutionProvider")
    for place, (row, sample) in enumerate(zip(rows, read_samples(folder), strict=True)):
        for output in description.outputs:
            actual = answered[output.name][place]
            actual = actual[tuple(slice(each.size or row.sizes[each.name]) for each in output.dimensions)]
            assert not tolerances.difference(output.name, actual, sample.outputs[output.name], is_map=False)
        weights_of = [each for each in folder.bundle.maps if each.quantity != VALUES]
        for binding, each in zip(weights_of, description.maps, strict=True):
            whole = canonical(answered[binding.output], list(binding.axes))[place]
            weights = cut(whole, each, row.labels, row, nested_mask_name(description, each, bound))
            expected = sample.maps[each.name]
            assert not tolerances.difference(each.name, weights.weights, expected.weights, is_map=True)
            if expected.key_index is not None:
                np.testing.assert_array_equal(weights.key_index, expected.key_index)


@pytest.mark.parametrize("name", ONE_PASS)
def test_a_second_runtime_that_shares_nothing_with_the_first_agrees(name: str, exported: Exported) -> None:
    folder = exported(name)[1]
    graph = folder.bundle.graphs[0]
    reference = ReferenceEvaluator(str(folder.file(graph.file)))
    for sample in read_samples(folder):
        fed = {each: array[np.newaxis] for each, array in sample.tensors.items()}
        fed["luck"] = np.full(fed["ids"].shape, 0.5, np.float32)
        answered = reference.run(None, {each: fed[each] for each in graph.inputs})
        for output, array in zip(graph.outputs, answered, strict=True):
            if output in sample.outputs:
                np.testing.assert_allclose(array[0], sample.outputs[output], rtol=1e-4, atol=1e-5)
                continue
            if output.endswith(":values"):  # of which there are no samples
                continue
            expected = sample.maps[output].weights  # rounded, by a quarter of its tolerance
            np.testing.assert_allclose(array[array != 0], expected[expected != 0], rtol=1e-4, atol=3e-4)


def test_a_generating_model_puts_out_its_samples_step_by_step(exported: Exported) -> None:
    folder = exported("writer")[1]
    generation = folder.bundle.generation
    tolerances = Tolerances(folder.bundle.tolerances, "CPUExecutionProvider")
    for sample in read_samples(folder):
        tensors = {name: array[np.newaxis] for name, array in sample.tensors.items()}
        encoded = run(folder, "encoder", tensors)
        fed = {**tensors, **encoded, "state": encoded["start"], "total": np.zeros((1, tiny.SIZE), np.float32)}
        cache = np.full((1, tiny.MAX_STEPS + 3, tiny.SIZE), 7.0, np.float32)  # what was not written says nothing
        token, scores, cross = generation.begin_token, [], []
        for place, expected in enumerate(sample.token_ids):
            fed |= {"place": np.array([place]), "cache": cache}
            answer = run(folder, "step", {**fed, "token": np.array([token])})
            cache[:, place] = answer["next_cache"][:, 0]
            token = int(answer["scores"].argmax())
            assert token == expected
            scores.append(answer["scores"][0])
            cross.append(answer["decoder.cross"][0])
            fed |= {"state": answer["next_state"], "total": answer["next_total"]}
        assert token == generation.end_token or len(scores) == tiny.MAX_STEPS
        assert not tolerances.difference("scores", np.stack(scores), sample.outputs["scores"], is_map=False)
        own, weights = sample.maps["decoder.self"].weights, sample.maps["decoder.cross"].weights
        assert not tolerances.difference("decoder.cross", np.stack(cross, axis=1), weights, is_map=True)
        assert own.shape == (1, len(scores), len(scores))
        assert np.array_equal(own[0], np.tril(own[0])), "a step looks at what was put out before it"


def test_the_step_takes_nothing_that_it_does_not_read(exported: Exported) -> None:
    graphs = {each.name: each for each in exported("writer")[1].bundle.graphs}
    assert set(graphs["encoder"].inputs) == {"ids", "ids_mask"}
    assert set(graphs["encoder"].outputs) == {"memory", "start"}
    assert set(graphs["step"].inputs) == {"token", "ids_mask", "memory", "state", "total", "cache", "place"}


@pytest.mark.parametrize(
    ("name", "graph", "tensor", "shape"),
    [
        ("reader", "model.onnx", "ids", ["batch", "word"]),
        ("reader", "model.onnx", "ids_mask", ["batch", "word"]),
        ("reader", "model.onnx", "logits", ["batch", 3]),
        ("reader", "model.onnx", "encoder.0.self", ["batch", 2, "word", "word"]),
        ("reader", "model.onnx", "pool", ["batch", 1, "word"]),
        ("documents", "model.onnx", "ids", ["batch", "sentence", "word"]),
        ("documents", "model.onnx", "word", ["batch", "sentence", "word"]),
        ("drawing", "model.onnx", "luck", ["batch", "word"]),
        ("drawing", "model.onnx", "tags", ["batch", "word", 2]),
        ("writer", "encoder.onnx", "memory", ["batch", "word", 8]),
        ("writer", "step.onnx", "memory", ["batch", "word", 8]),
        ("writer", "step.onnx", "cache", ["batch", "entries", 8]),
        ("writer", "step.onnx", "next_cache", ["batch", 1, 8]),
        ("writer", "step.onnx", "place", ["batch"]),
        ("writer", "step.onnx", "token", ["batch"]),
        ("writer", "step.onnx", "scores", ["batch", tiny.VOCABULARY]),
        ("writer", "step.onnx", "decoder.cross", ["batch", 1, "word"]),
    ],
)
def test_declared_axes(name: str, graph: str, tensor: str, shape: list[object], exported: Exported) -> None:
    model = onnx.load(exported(name)[1].file(graph))
    value = next(each for each in [*model.graph.input, *model.graph.output] if each.name == tensor)
    assert [each.dim_param or each.dim_value for each in value.type.tensor_type.shape.dim] == shape


def test_the_bundle_says_how_attention_looks_over_held_out_inputs(bundle_folder: BundleFolder) -> None:
    observable = {each.name for each in bundle_folder.bundle.description.maps if is_observable(each)}
    stated = bundle_folder.bundle.attention_references
    assert {each.map for each in stated} == observable
    samples = read_samples(bundle_folder)  # of the examples, which are held out here again and again
    for each in stated:
        assert each.inputs == FEWEST_INPUTS and len(each.thresholds) == len(ROWS)
        dense = [sample.maps[each.map].weights for sample in samples if sample.maps[each.map].query_index is None]
        if each.signal == "largest" and dense:  # one value for each head and query
            largest = np.concatenate([weights.max(axis=2).ravel() for weights in dense])
            low, high = np.searchsorted(np.arange(1, 10) / 10, [largest.min(), largest.max()])
            assert sum(each.bins) == largest.size * FEWEST_INPUTS // len(samples)
            assert not any(each.bins[:low]) and not any(each.bins[high + 1 :])


def test_no_file_tells_of_the_machine_that_made_it(bundle_folder: BundleFolder) -> None:
    telling = {str(Path.cwd()), sys.prefix, str(Path.home()), "site-packages", ".py", 'File "', "stack_trace"}
    telling |= {str(bundle_folder.path.parent.parent), socket.gethostname(), f"/{getpass.getuser()}/"}
    for path in bundle_folder.path.iterdir():
        content = path.read_bytes()
        found = [each for each in telling if each.encode() in content]
        assert not found, f"{path.name} holds {found}"


def test_the_bundle_says_how_far_its_graphs_were_from_pytorch(bundle_folder: BundleFolder) -> None:
    description = bundle_folder.bundle.description
    parity = {each.name: each for each in bundle_folder.bundle.parity}
    for each in [*description.outputs, *description.maps]:
        assert parity[each.name].cases >= 7
        assert parity[each.name].absolute < 1e-5
    assert bundle_folder.bundle.library_versions["torch"]


def test_short_spans_are_exact_however_long_a_span_may_be(tmp_path: Path) -> None:
    """A runtime's sigmoid may be off by 1e-7, which is much of a short span where it is a share of a long one."""
    torch.manual_seed(0)
    trained = small.trained("dynamic-span")
    for module in trained.model.modules():
        if isinstance(module, SpannedHeads):
            module.max_span = 256
            nn.init.constant_(module.span_map.bias, -12.0)
            nn.init.normal_(module.span_map.weight)
    export_model(trained, tmp_path)
