"""An overflow inside a model is an error of its row that names what is not finite; others keep their answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from limelight.v1 import attention_pb2, model_pb2, service_pb2, values_pb2
from limelight_bundle.maps import MapPart, MapWeights, Projected
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array, TensorValue
from limelight_bundle.wire import to_tensor
from limelight_service.engine.jobs import Event
from limelight_service.engine.model import Model
from limelight_service.engine.runtime.chunks import ChunkRow, Chunks
from limelight_service.engine.runtime.finite import Finite, all_finite, is_finite_map
from limelight_service.engine.runtime.sessions import Session
from limelight_service.engine.types import Answer, Query, Step
from limelight_service.errors import LimelightError, NotFiniteError
from limelight_service.observability.observer import NullObserver
from tests.kit import bundles
from tests.kit.processes import scrape
from tests.kit.serving import Running, attend, free_port, generate, predict, refusal, serving, text
from tests.service.engine.conftest import jobs_of, weights_of

INFINITY = float("inf")
HUGE, GOOD = 3e38, 0.25


class Count(NullObserver):
    def __init__(self) -> None:
        self.rows = 0

    def not_finite(self, model: str) -> None:
        self.rows += 1


def pixels(value: float) -> values_pb2.Instance:
    tensor = to_tensor(np.full((1, 4, 4), value, np.float32))
    return values_pb2.Instance(inputs={"pixels": values_pb2.Value(tensor=tensor)})


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("repository")
    bundles.picture(folder)
    with serving(folder, metrics_port=free_port()) as running:
        yield running


def failed(running: Running, method: str, request: Any) -> Any:
    with pytest.raises(grpc.RpcError) as caught:
        answer = getattr(running.stub, method)(request, timeout=60)
        list(answer) if method == "AttendStream" else None
    return refusal(caught.value)


def counted(running: Running) -> float:
    return scrape(running.server.metrics_port).get('limelight_rows_not_finite_total{model="picture"}', 0)


@pytest.mark.parametrize("encoding", attention_pb2.Encoding.values())
@pytest.mark.parametrize("method", ["Predict", "Attend", "AttendStream"])
def test_a_model_that_overflows_is_no_answer(running: Running, method: str, encoding: int) -> None:
    if method == "Predict":
        request: Any = predict("picture", pixels(HUGE))
    else:
        request = attend("picture", pixels(HUGE), encoding=encoding)
    if method == "AttendStream":
        request = service_pb2.AttendStreamRequest(
            model=request.model, instances=request.instances, attention=request.attention
        )
    before = counted(running)
    told = failed(running, method, request)
    assert (told.code, told.reason, told.retry) == ("OUT_OF_RANGE", "NOT_FINITE", None)
    assert "output numbers" in told.message
    assert counted(running) == before + 1


def test_the_instance_is_named_and_calls_beside_it_are_answered_as_alone(running: Running) -> None:
    alone = running.stub.Attend(attend("picture", pixels(GOOD)), timeout=60)
    bad = [running.stub.Predict.future(predict("picture", pixels(HUGE)), timeout=60) for _ in range(8)]
    good = [running.stub.Attend.future(attend("picture", pixels(GOOD)), timeout=60) for _ in range(8)]
    assert {each.code() for each in bad} == {grpc.StatusCode.OUT_OF_RANGE}
    for each in good:
        assert numbers(each.result()) == numbers(alone)
    told = failed(running, "Predict", predict("picture", pixels(GOOD), pixels(HUGE), pixels(GOOD)))
    assert "instances[1]" in told.message


def numbers(answer: Any) -> list[Any]:
    (one,) = answer.results
    return [one.prediction.results, [each.weights.data for each in one.maps]]


def run(model: Model, rows: Sequence[Any], maps: Sequence[str] = (), **query: Any) -> list[Event]:
    """Run rows in one batch; what was told of each last."""
    told: dict[int, Event] = {}
    for happened in model.runner.run(jobs_of(model, Query(tuple(rows), weights_of(*maps), **query))):
        for job, event in happened:
            if not isinstance(event, Step):
                assert job.index not in told
                told[job.index] = event
    return [told[index] for index in range(len(rows))]


def test_rows_of_one_batch_are_not_touched(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    instance = {"pixels": TensorValue(np.zeros((1, 4, 4), np.float32))}
    row = Preprocessor(folders["picture"]).row(instance, field=())
    good, bad = (
        Row({"pixels": np.full((1, 4, 4), value, np.float32)}, row.sizes, row.labels) for value in (GOOD, HUGE)
    )
    (alone,) = run(models["picture"], [good], ["patch"])
    first, second, third = run(models["picture"], [good, bad, good], ["patch"])
    assert isinstance(second, NotFiniteError) and "output numbers" in second.message
    for each in (first, third):
        assert isinstance(each, Answer) and isinstance(alone, Answer)
        np.testing.assert_array_equal(each.outputs["numbers"], alone.outputs["numbers"])
        (ours,), (theirs,) = each.maps.values(), alone.maps.values()
        np.testing.assert_array_equal(ours.weights, theirs.weights)


class Spoilt:
    """Has NaN in some outputs of a graph, in the rows of a batch that have a token."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, output: str, value: float = float("nan")) -> None:
        self.token = 11
        original = Session.run

        def spoilt(session: Session, outputs: Sequence[str], feeds: Mapping[str, Array], **options: Any) -> list[Array]:
            found = [np.array(each) for each in original(session, outputs, feeds, **options)]
            for name, array in zip(outputs, found, strict=True):
                if name == output:
                    array[self._places(feeds)] = value
            return found

        monkeypatch.setattr(Session, "run", spoilt)

    def _places(self, feeds: Mapping[str, Array]) -> Array:
        if "ids" in feeds:
            return (feeds["ids"] == self.token).any(axis=1)
        return feeds["mask"].sum(axis=1) == 3  # a step: rows by their sources' lengths


@pytest.mark.parametrize(
    ("output", "named"),
    [
        ("scores", "output scores"),
        ("cross", "map decoder.0.cross"),
        ("own", "map decoder.0.self"),
        ("own_source", "map encoder.0.self"),
    ],
)
def test_a_generation_that_overflows_ends_alone(
    models: dict[str, Model],
    folders: dict[str, BundleFolder],
    monkeypatch: pytest.MonkeyPatch,
    output: str,
    named: str,
) -> None:
    rows = [bundles.row(folders["echo"], ids=ids) for ids in ([4, 5], [4, 11, 5], [5, 4])]
    maps = ["encoder.0.self", "decoder.0.cross", "decoder.0.self"]
    expected = run(models["echo"], rows, maps)
    Spoilt(monkeypatch, output)
    first, second, third = run(models["echo"], rows, maps)
    assert isinstance(second, NotFiniteError) and named in second.message and "instances[1]" in second.message
    for each, before in ((first, expected[0]), (third, expected[2])):
        assert isinstance(each, Answer) and isinstance(before, Answer)
        assert each.sequences[0].token_ids == before.sequences[0].token_ids


def test_a_stream_of_tokens_ends_with_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundles.echo(tmp_path)
    with serving(tmp_path) as running:
        with monkeypatch.context() as patched:
            Spoilt(patched, "scores")
            with pytest.raises(grpc.RpcError) as caught:
                list(running.stub.Generate(generate("echo", text("the dog cat")), timeout=60))
            assert refusal(caught.value).reason == "NOT_FINITE"
        assert list(running.stub.Generate(generate("echo", text("the dog cat")), timeout=60))


def test_scores_that_say_never_are_answered(
    models: dict[str, Model], folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = bundles.row(folders["tiny"], ids=[4, 5])
    original = Session.run

    def never(session: Session, outputs: Sequence[str], *arguments: Any, **options: Any) -> list[Array]:
        found = [np.array(each) for each in original(session, outputs, *arguments, **options)]
        for name, array in zip(outputs, found, strict=True):
            if name in ("logits", "tags", "scores0"):
                array[..., 0] = -INFINITY
        return found

    monkeypatch.setattr(Session, "run", never)
    (answer,) = run(models["tiny"], [row])
    assert isinstance(answer, Answer) and np.isneginf(answer.outputs["logits"][0])


def finite(**outputs: Sequence[float]) -> str:
    bundle = bundle_pb2.Bundle()
    for name, activation in (("soft", model_pb2.ACTIVATION_SOFTMAX), ("sigmoid", model_pb2.ACTIVATION_SIGMOID)):
        classes = model_pb2.ClassesDescription(output=name, activation=activation)
        bundle.description.results.add(name=name, classes=classes)
    classes = model_pb2.ClassesDescription(output="probabilities")
    bundle.description.results.add(name="probabilities", classes=classes)
    spans = model_pb2.SpansDescription(start_output="start", end_output="end")
    bundle.description.results.add(name="spans", spans=spans)
    boxes = model_pb2.BoxesDescription(scores_output="of_queries", boxes_output="boxes")
    bundle.description.results.add(name="boxes", boxes=boxes)
    bundle.generation.scores_output = "scores"
    arrays = {name: np.array(values, np.float32) for name, values in outputs.items()}
    return Finite(bundle).problem(arrays, {})


@pytest.mark.parametrize("name", ["soft", "sigmoid", "start", "end", "of_queries", "scores"])
def test_never_is_a_score(name: str) -> None:
    assert finite(**{name: [-INFINITY, 1.0]}) == ""
    for wrong in (INFINITY, float("nan"), -float("nan")):
        assert finite(**{name: [wrong, 1.0]}) == f"output {name}"
        assert finite(**{name: [-INFINITY, wrong]}) == f"output {name}"


def test_never_everywhere_leaves_a_softmax_nothing() -> None:
    assert finite(soft=[-INFINITY, -INFINITY]) == "output soft"
    assert finite(start=[-INFINITY, -INFINITY]) == "output start"
    assert finite(of_queries=[-INFINITY, -INFINITY]) == "output of_queries"
    assert finite(boxes=[-INFINITY, 1.0]) == "output boxes"
    assert finite(sigmoid=[-INFINITY, -INFINITY]) == finite(scores=[-INFINITY, -INFINITY]) == ""


@pytest.mark.parametrize("wrong", [INFINITY, -INFINITY, float("nan")])
def test_other_outputs_are_finite(wrong: float) -> None:
    assert finite(soft=[1, 2], probabilities=[wrong, 0.5]) == "output probabilities"
    assert finite(features=[wrong]) == "output features"
    assert finite(features=[3.4e38, -3.4e38]) == finite(features=[]) == ""


def test_maps_by_their_quantities() -> None:
    scores, norms = attention_pb2.QUANTITY_SCORES, attention_pb2.QUANTITY_NORMS
    weights = attention_pb2.QUANTITY_WEIGHTS
    for value, right in ((-INFINITY, {scores}), (INFINITY, set()), (float("nan"), set())):
        array = np.array([[[0.5, value]]], np.float32)
        assert {each for each in (weights, scores, norms) if is_finite_map(array, each)} == right
    rounded = np.array([[[0.5, INFINITY]]], np.float16)  # 70,000 as the device gives it to who asks for float16
    assert {each for each in (weights, scores, norms) if is_finite_map(rounded, each)} == {scores, norms}


@pytest.mark.parametrize("shape", [(2**20 + 3,), (3, 2**19), (1, 1, 2**20), (2**19, 2), (0, 5)])
def test_large_arrays_are_looked_at_everywhere(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, np.float32)
    assert all_finite(array) and all_finite(array.astype(np.int64))
    if array.size:
        array[(-1,) * len(shape)] = np.nan
        assert not all_finite(array)


def test_chunks_made_of_projections_that_overflow_are_errors(models: dict[str, Model]) -> None:
    count = Count()
    query = np.full((1, 2, 3), 3e38, np.float32)
    source: Projected | MapWeights = Projected(query, query, None)
    key = ("encoder.0.self", attention_pb2.QUANTITY_WEIGHTS)
    row = ChunkRow({}, {"weights": 4}, {}, key=key, source=source, heads=np.arange(1), queries=np.arange(2))
    chunks = models["tiny"].chunks
    assert chunks is not None
    ((_, event),) = next(iter(Chunks("tiny", count).run(jobs_of(chunks, Query((row,), seeds=(None,))))))
    assert isinstance(event, LimelightError) and "map encoder.0.self" in event.message
    assert count.rows == 1


def test_parts_of_maps_are_looked_at(
    models: dict[str, Model], folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [bundles.row(folders["tiny"], ids=ids) for ids in ([4, 5], [4, 11])]
    Spoilt(monkeypatch, "attention0")
    part = {("encoder.0.self", attention_pb2.QUANTITY_WEIGHTS): MapPart(heads=np.array([0]))}
    good, bad = run(models["tiny"], rows, ["encoder.0.self"], parts=(part, part))
    assert isinstance(good, Answer)
    assert isinstance(bad, NotFiniteError) and "map encoder.0.self" in bad.message
    assert all(isinstance(each, Answer) for each in run(models["tiny"], rows))  # what nobody asks for spoils nothing
