"""Graphs in float16 and int8: as near to PyTorch as they say, the same alone and batched, and refused where broken."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import limelight
from limelight import cli
from limelight.base.values import to_instance
from limelight.interventions import with_interventions
from limelight.v1 import model_pb2
from limelight_bundle.errors import BundleError
from limelight_bundle.names import SAMPLES_FILE
from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_bundle.tolerance import LARGEST_TOLERANCE, Tolerances
from limelight_bundle.values import Array
from limelight_bundle.writer import write_bundle
from limelight_export.conversion import convert, int8
from limelight_export.conversion.float16 import convert_to_float16
from limelight_export.conversion.half_weights import round_to_float16
from limelight_export.conversion.int8 import quantise
from limelight_export.errors import ExportError
from limelight_export.execution import pytorch_runner
from limelight_export.pipeline import export_model
from limelight_export.precision import Precision
from limelight_export.tracing.build import build_graphs
from limelight_export.verification.comparison import Comparison
from limelight_export.verification.fitted_tolerances import FittingComparison
from limelight_export.verification.verify import compare_random_rows
from limelight_models.attention import Attention
from limelight_models.attention.queries.multi_head import MultiHead
from limelight_models.attention.score import ScaledDot, SelfAttentive
from limelight_models.cards.card import Card, Metric, TrainedModel
from limelight_models.index import recipe
from limelight_service.checking.selftest import check_samples
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime import sessions
from limelight_service.engine.runtime.providers import Provider, choose_provider
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.end_to_end.test_interventions import changed, multiplied
from tests.export.conftest import MODELS
from tests.kit import exports, small, tiny
from tests.kit.serving import serving

WIDTH = 32
HALF = "half weights"
OPERATORS = {Precision.FLOAT16: "Cast", Precision.INT8: "MatMulInteger"}


class Wide(tiny.Reader):
    """A reader whose matrices are large enough, and whose attention is decided: broken graphs must show."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tiny.VOCABULARY, WIDTH)
        self.attention = MultiHead(attention=Attention(score=ScaledDot()), d_model=WIDTH, heads=2)
        self.pool = Attention(score=SelfAttentive(d_k=WIDTH, d_w=WIDTH))
        self.classify = nn.Linear(WIDTH, 3)


@pytest.fixture(scope="module", autouse=True)
def small_matrices() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int8, "MIN_MATRIX_VALUES", WIDTH * WIDTH)
        yield


def wide() -> TrainedModel:
    torch.manual_seed(0)
    made = tiny.trained(Wide(), tiny.reader_card(), "the cat sat on a mat .", "dog", "a dog ran on the mat")
    return replace(made, judge=_judge)


def _judge(network: nn.Module) -> list[Metric]:
    """Give any figure that a network decides."""
    ids = torch.arange(1, 9).reshape(2, 4)
    answer = network(ids=ids, ids_mask=torch.ones_like(ids, dtype=torch.bool))
    return [Metric(name="first score", value=float(answer.outputs["logits"][0, 0]))]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BundleFolder]:
    """The wide reader in every precision, and with half weights, a version each."""
    repository = tmp_path_factory.mktemp("precisions")
    made = {each: exports.export_model(wide(), repository, precision=each) for each in Precision}
    return {**made, HALF: exports.export_model(wide(), repository, half_weights=True)}


@pytest.mark.parametrize("precision", [Precision.FLOAT16, Precision.INT8])
def test_a_bundle_says_its_precision_its_tolerances_and_what_it_cost(
    folders: dict[str, BundleFolder], precision: Precision
) -> None:
    plain, folder = folders[Precision.FLOAT32].bundle, folders[precision].bundle
    assert plain.description.precision == model_pb2.PRECISION_FLOAT32
    assert folder.description.precision == precision.describe()
    (metric,) = folder.description.metrics
    assert metric.float32_value == pytest.approx(
        _judge(pytorch_runner.copy_for_export(wide().model))[0].value, abs=1e-4
    )
    assert 0 < abs(metric.value - metric.float32_value) < 0.2
    stated = {each.name: each for each in folder.tolerances if each.provider}
    seen = {each.name: each for each in folder.parity}
    assert 1e-4 < stated["logits"].absolute < 0.2
    assert seen["logits"].absolute < stated["logits"].absolute < 3 * seen["logits"].absolute
    assert 1e-3 < stated["encoder.0.self"].relative <= 0.5
    model = onnx.load(str(folders[precision].file("model.onnx")))
    assert OPERATORS[precision] in {node.op_type for node in model.graph.node}
    assert {each.type.tensor_type.elem_type for each in model.graph.output} == {onnx.TensorProto.FLOAT}


texts = st.lists(st.sampled_from(tiny.WORDS), min_size=1, max_size=40).map(" ".join)


@pytest.fixture(scope="module")
def client(folders: dict[str, BundleFolder]) -> Iterator[limelight.Client]:
    repository = folders[Precision.INT8].path.parent.parent
    with serving(repository, lanes=2) as running, limelight.Client(running.server.address) as made:
        yield made


@pytest.mark.parametrize("version", [2, 3])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batch=st.lists(texts, min_size=2, max_size=6))
def test_a_row_is_answered_the_same_alone_and_in_a_batch_and_near_to_float32(
    version: int, batch: list[str], client: limelight.Client, folders: dict[str, BundleFolder]
) -> None:
    """By the tolerances that the bundle states: where a number's last bit differs, it may round to the next step."""
    precision = list(Precision)[version - 1]
    answers = {
        number: client.attend("reader", [{"text": text} for text in batch], version=number) for number in (1, version)
    }
    allowed = Tolerances(folders[precision].bundle.tolerances, "CPUExecutionProvider")
    for place, text in enumerate(batch):
        (alone,) = client.attend("reader", [{"text": text}], version=version)
        for other in (alone, answers[1][place]):
            for name in ("encoder.0.self", "pool"):
                found, wanted = (
                    next(each.weights for each in answer.maps if each.name == name)
                    for answer in (answers[version][place], other)
                )
                assert not allowed.difference(name, found, wanted, is_map=True)
            found, wanted = (each.prediction.outputs["logits"] for each in (answers[version][place], other))
            assert not allowed.difference("logits", found, wanted, is_map=False)


@pytest.mark.parametrize("kind", [*Precision, HALF])
def test_looking_away_changes_the_answer_as_in_pytorch(
    kind: str, client: limelight.Client, folders: dict[str, BundleFolder]
) -> None:
    """In a batch with another row: by the bundle's tolerances, of which the change is a multiple."""
    text, away = "the cat sat on a mat .", limelight.scale_keys("encoder.0.self", limelight.TextSpan(4, 11))
    instances = [with_interventions(to_instance({"text": text}), [away]), {"text": "a dog ran"}]
    answer, _ = client.attend("reader", instances, version=[*folders].index(kind) + 1)
    trained = round_to_float16(wide()) if kind == HALF else wide()
    model = pytorch_runner.copy_for_export(trained.model)
    ids = torch.tensor([[4 + tiny.WORDS.index(word) for word in text.split()]])
    tensors = {"ids": ids, "ids_mask": torch.ones_like(ids, dtype=torch.bool)}
    with torch.no_grad():
        usual = model(**tensors)
        with changed(model.attention.attention, weights=lambda weights, mask: multiplied(weights, [1, 2], 0)):
            expected = model(**tensors)
    allowed = Tolerances(folders[kind].bundle.tolerances, "CPUExecutionProvider")
    found, wanted = answer["encoder.0.self"].weights, expected.maps["encoder.0.self"][0].numpy()
    assert not found[..., 1:3].any() and not allowed.difference("encoder.0.self", found, wanted, is_map=True)
    logits, wanted = answer.prediction.outputs["logits"], expected.outputs["logits"][0].numpy()
    assert not allowed.difference("logits", logits, wanted, is_map=False)
    change = usual.outputs["logits"][0].numpy() - wanted
    assert allowed.difference("logits", logits + change / 2, wanted, is_map=False)


def _swapped(model: nn.Module) -> tiny.Reader:
    """Take queries for keys and keys for queries."""
    broken = copy.deepcopy(model)
    assert isinstance(broken, tiny.Reader)
    attention = broken.attention
    attention.query_map, attention.key_map = attention.key_map, attention.query_map
    return broken


def test_no_tolerance_is_found_for_a_graph_whose_queries_and_keys_are_swapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = wide()
    (broken,) = build_graphs(pytorch_runner.copy_for_export(_swapped(trained.model)), trained.card)
    monkeypatch.setattr(convert, "_CONVERTERS", {Precision.INT8: lambda model: quantise(broken.model)})
    with pytest.raises(ExportError, match=r"too coarse for this model: (logits|encoder\.0\.self) differs by up to"):
        export_model(trained, tmp_path, precision=Precision.INT8)
    assert not (tmp_path / "reader").exists()


@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.INT8])
def test_without_a_right_graph_for_interventions_the_rest_is_served_and_the_reason_told(
    precision: Precision, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = wide()
    main, right = build_graphs(pytorch_runner.copy_for_export(trained.model), trained.card, interventions=True)
    _, broken = build_graphs(pytorch_runner.copy_for_export(_swapped(trained.model)), trained.card, interventions=True)
    if precision is Precision.INT8:  # it breaks when it is converted
        broken, wrong = right, broken.model
        convert_one = lambda model: quantise(wrong if model is right.model else model)  # noqa: E731
        monkeypatch.setattr(convert, "_CONVERTERS", {Precision.INT8: convert_one})
    folder = export_model(trained, tmp_path, precision=precision, graphs=[main, broken])
    assert [each.name for each in folder.bundle.graphs] == ["main"]
    with serving(tmp_path) as running, limelight.Client(running.server.address) as client:
        assert client.attend("reader", {"text": "a dog ran"}).maps
        with pytest.raises(limelight.Error, match="does not answer as the model does"):
            client.predict("reader", {"text": "a"}, interventions=[limelight.scale_keys("encoder.0.self", 0)])
        assert cli.main(["models", "reader", "--target", running.server.address]) == 0
    assert "its graph for interventions does not answer as the model does" in capsys.readouterr().out


def test_such_a_graph_in_a_right_bundle_fails_the_test_at_load(
    folders: dict[str, BundleFolder], tmp_path: Path
) -> None:
    right = folders[Precision.INT8]
    trained = wide()
    (broken,) = build_graphs(pytorch_runner.copy_for_export(_swapped(trained.model)), trained.card)
    files: dict[str, bytes | Path] = {each.path: right.file(each.path) for each in right.bundle.files}
    assert SAMPLES_FILE in files
    for number, graph in enumerate((right.file("model.onnx"), quantise(broken.model).SerializeToString()), start=1):
        folder = write_bundle(tmp_path, right.bundle, files | {"model.onnx": graph}, version=number)
        model = open_model(folder, choose_provider("cpu", workers=1), Settings(), NullObserver())
        if number == 1:
            check_samples(model, folder)
            continue
        with pytest.raises(BundleError, match="is not answered as at its export"):
            check_samples(model, folder)


def test_the_margin_is_kept_where_rows_have_numbers_of_different_sizes() -> None:
    """A row of small numbers that is far off, beside one of large numbers that is right; unseen rows may be further."""
    fitting = FittingComparison(tiny.reader_card(), Precision.INT8)
    fitting.compare_arrays("logits", np.array([0.2, 0.0, 0.0]), np.zeros(3), "small")
    fitting.compare_arrays("logits", np.array([100.0, 0.0, 0.0]), np.array([100.0, 0.0, 0.0]), "large")
    fitting.fit_tolerances()
    for provider in ("CPUExecutionProvider", "CUDAExecutionProvider"):
        stated = Tolerances(fitting.tolerances, provider)
        assert not stated.difference("logits", np.array([0.3, 0.0, 0.0]), np.zeros(3), is_map=False)
    assert max(max(each.absolute, each.relative) for each in fitting.tolerances) <= LARGEST_TOLERANCE


def test_no_tolerance_is_stated_that_no_server_takes() -> None:
    fitting = FittingComparison(tiny.reader_card(), Precision.INT8)
    fitting.compare_arrays("logits", np.array([0.3, 0.0, 0.0]), np.zeros(3), "small")
    fitting.compare_arrays("logits", np.array([100.0, 0.0, 0.0]), np.array([100.0, 0.0, 0.0]), "large")
    with pytest.raises(ExportError, match="too coarse"):
        fitting.fit_tolerances()


class Counted(Comparison):
    """Counts the arrays that a bundle's tolerances do not allow."""

    def __init__(self, card: Card, folder: BundleFolder) -> None:
        super().__init__(card)
        self.stated = Tolerances(folder.bundle.tolerances, "CPUExecutionProvider")
        self.seen, self.outside = 0, list[str]()

    def compare_arrays(self, name: str, actual: Array, expected: Array, case: str, *, is_map: bool = False) -> None:
        self.seen += 1
        if said := self.stated.difference(name, actual, expected, is_map=is_map):
            self.outside.append(f"{said} ({case})")


def test_rows_that_nothing_was_measured_by_are_within_the_stated_tolerances(folders: dict[str, BundleFolder]) -> None:
    """Rows of another seed, and for each of them every output and map, three times."""
    folder, trained = folders[Precision.INT8], wide()
    model = pytorch_runner.copy_for_export(trained.model)
    (graph,) = build_graphs(model, trained.card)
    counted = Counted(trained.card, folder)
    converted_graph = replace(graph, model=onnx.load(str(folder.file("model.onnx"))))
    compare_random_rows(
        [converted_graph], pytorch_runner.PyTorchReference(model, trained.card), trained.card, counted, 400, seed=99
    )
    assert counted.seen > 3000
    assert not counted.outside, counted.outside
    assert min(each.cases for each in folder.bundle.parity) > 256  # and that is stated


def products_of(nodes: str, **weights: np.ndarray) -> onnx.ModelProto:
    """A graph of x [row, 8] -> y, z, whose weights stand behind what the exporter left in place."""
    head = '<ir_version: 8, opset_import: ["" : 20]> products (float[n, 8] x) => (float[n, m] y, float[k, l] z)'
    model = onnx.parser.parse_model(f"{head} {{ {nodes} }}")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(each, name) for name, each in weights.items())
    return model


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        ("t = Transpose <perm = [1, 0]> (w)  y = MatMul(x, t)  z = MatMul(x, t)", (8, 8)),
        ("t = Transpose(w)  u = Transpose(w)  y = MatMul(x, t)  z = MatMul(y, u)", (8, 8)),
        ("i = Identity(w)  t = Transpose <perm = [1, 0]> (i)  y = MatMul(x, t)  z = Gemm <transB = 1> (x, i)", (8, 8)),
        ("s = Constant <value_ints = [8, 8]> ()  t = Reshape(w, s)  y = MatMul(x, t)  z = MatMul(x, t)", (2, 4, 8)),
    ],
)
def test_weights_that_are_turned_or_read_twice_are_converted(
    nodes: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8, "MIN_MATRIX_VALUES", 1)
    random = np.random.default_rng(0)
    model = products_of(nodes, w=random.standard_normal(shape).astype(np.float32))
    changed = quantise(model)
    assert [node.op_type for node in changed.graph.node].count("MatMulInteger") == 2
    assert "w" not in {each.name for each in changed.graph.initializer}
    feeds = {"x": random.standard_normal((5, 8)).astype(np.float32)}
    before, after = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
        for each in (model, changed)
    )
    for expected, found in zip(before, after, strict=True):
        assert 0 < np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_large_products_that_stay_in_float32_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(int8, "MIN_MATRIX_VALUES", 1)
    weights = {"w": np.ones((8, 8), np.float32), "heads": np.ones((2, 8, 3), np.float32)}
    quantise(products_of("y = MatMul(x, w)  z = MatMul(x, heads)", **weights))
    assert (
        "1 products are in integers; these with large weights stay in float32: 1 MatMul with [2, 8, 3]" in caplog.text
    )


def test_a_generating_model_wide_enough_for_it_is_converted() -> None:
    """Its weights, which step and prefill share, are too large for the exporter to turn them beforehand."""
    torch.manual_seed(0)
    config = replace(small.config("gpt"), d_model=528, d_hidden=528, layers=1)
    blueprint = replace(small.blueprint("gpt"), config=config)
    network = recipe("gpt").build(blueprint)
    graphs = build_graphs(pytorch_runner.copy_for_export(network), recipe("gpt").card(network, blueprint))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int8, "MIN_MATRIX_VALUES", 2**15)
        changed = {graph.name: quantise(graph.model) for graph in graphs}
    counts = {
        name: [node.op_type for node in model.graph.node].count("MatMulInteger") for name, model in changed.items()
    }
    assert counts == {"step": 6, "prefill": 2}
    for graph in graphs:
        assert changed[graph.name].ByteSize() < 0.4 * graph.model.ByteSize()


def test_a_model_whose_weights_cannot_be_converted_is_refused_with_the_operator(tmp_path: Path) -> None:
    made = replace(MODELS["documents"](), metrics=())
    with pytest.raises(ExportError, match=r"int8 does not pay: 0 of .* in GRU, which stays in float32"):
        export_model(made, tmp_path, precision="int8")


@pytest.mark.parametrize(
    "make", [MODELS["documents"], MODELS["writer"], MODELS["long_reader"], lambda: small.trained("gat")]
)
def test_every_kind_of_model_is_exported_in_float16(make: Callable[[], TrainedModel], tmp_path: Path) -> None:
    """Recurrent, generating, with fused attention, and with sums over edges."""
    torch.manual_seed(0)
    folder = exports.export_model(replace(make(), metrics=()), tmp_path, precision="float16")
    assert read_bundle(folder.path).bundle.description.precision == model_pb2.PRECISION_FLOAT16


def test_float16_with_gates_is_served_where_the_runtime_cannot_read_what_it_saved_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SMALLEST_WIDE", 0)
    monkeypatch.setattr(sessions, "SMALLEST", 0)
    torch.manual_seed(0)
    folder = exports.export_model(replace(MODELS["long_reader"](), metrics=()), tmp_path, precision="float16")
    provider = Provider("CPUExecutionProvider", 2, 2, cores=2)
    check_samples(open_model(folder, provider, Settings(), NullObserver()), folder)


def test_a_value_that_is_read_twice_by_what_stays_in_float32_is_cast_once() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 20]>
        counted (float[n] x) => (float[m] y) <float one = {1}> {
            last = ReduceMax <keepdims = 0> (x)
            last_next = Add (last, one)
            whole = Floor (last_next)
            steps = Range (whole, last_next, last_next)
            all = Range (one, whole, one)
            y = Add (all, one)
        }""")
    session = onnxruntime.InferenceSession(
        convert_to_float16(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(["y"], {"x": np.array([3.5], np.float32)})
    assert found.tolist() == [2, 3, 4]


def test_figures_that_cannot_be_measured_again_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="accuracy must be measured again in float16, but its data are missing"):
        export_model(replace(wide(), judge=None), tmp_path, precision="float16")


def lines(count: int) -> str:
    """Sentences that one word decides."""
    pairs = (("warm", "sun"), ("cold", "snow"))
    return "".join(
        f"{label}\tthe day {number} of {word} was long\n"
        for number in range(count)
        for label, word in (pairs[number % 2],)
    )


def test_a_run_is_judged_again_on_the_data_that_it_held_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, run, repository = tmp_path / "data.tsv", tmp_path / "run", str(tmp_path / "repository")
    data.write_text(lines(1200))
    train = ["train", "mechanism", "--mechanism", "multi-head", "--data", str(data), "--out", str(run), "--epochs", "1"]
    assert cli.main(train) == 0
    export = ["export", str(run), "--repository", repository, "--precision", "float16"]
    capsys.readouterr()
    assert cli.main(export) == 0
    assert "(float32: " in capsys.readouterr().out
    (folder,) = Path(repository).glob("*/1")
    (metric,) = read_bundle(folder).bundle.description.metrics
    assert (metric.name, metric.HasField("baseline")) == ("accuracy", True)
    assert metric.value == pytest.approx(metric.float32_value, abs=0.2)
    assert {each.inputs for each in read_bundle(folder).bundle.attention_references} == {120}
    data.write_text(lines(1201))
    assert cli.main(export) == 1
    assert "the data have changed" in capsys.readouterr().err
    assert cli.main(export[:-2]) == 0  # in float32 nothing is measured again
    assert not read_bundle(folder.with_name("2")).bundle.attention_references


def test_integers_do_what_their_formula_says() -> None:
    """By hand: x = (2, −0.8) in steps of 2/127, W = ((1, 0), (0.4, 2)) in steps of 1/63 and 2/63.

    The large row beside it does not change its scale.
    """
    matrix = np.array([[1, 0], [0.4, 2]], np.float32)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["row", 2])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["row", 2])],
        [onnx.numpy_helper.from_array(matrix, "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(int8, "MIN_MATRIX_VALUES", 1)
        evaluator: Callable[..., list[np.ndarray]] = onnx.reference.ReferenceEvaluator(quantise(model)).run
    x = np.array([[2, -0.8], [0, 0], [1e6, 0]], np.float32)
    step = 2 / 127  # −0.8 becomes −51 steps, 0.4 becomes 25
    expected = [[step * (127 * 63 - 51 * 25) / 63, step * -51 * 63 * 2 / 63], [0, 0], [1e6, 0]]
    np.testing.assert_allclose(evaluator(None, {"x": x})[0], expected, rtol=1e-5)
