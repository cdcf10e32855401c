"""Models that pass their check and do harm later, on an input that their examples do not have."""

import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import onnx
import pytest

from limelight.v1 import service_pb2, service_pb2_grpc
from tests.hostile.forge import LOOP, change_graph, copied, put_behind, replace_file
from tests.kit import bundles
from tests.kit.processes import process, scrape, started
from tests.kit.serving import eventually, free_port, predict, text

LONG = " ".join(["cat"] * 12)  # longer than any example
REASON = "it was taken out: its runs kept taking longer than the 0.5 s that one may"


def on_long_texts(folder: Path, nodes: str, **values: object) -> None:
    """Compute something else than a model's logits where a text is longer than all examples (`is_long`)."""
    longer = """
        shape = Shape(ids)
        tokens = Gather(shape, tokens_axis)
        is_long = Greater(tokens, longest)
    """
    made = {name: np.asarray(value) for name, value in ({"tokens_axis": 1, "longest": 10} | values).items()}
    change_graph(folder, lambda model: put_behind(model, "logits", longer + nodes, **made))


def loops_on_long_texts(folder: Path) -> None:
    """Goes round once for every text of the examples, and for ever for a longer one."""
    nodes = f"trips = Where(is_long, endless, once) {LOOP} logits = Identity(carried)"
    on_long_texts(folder, nodes, endless=2**62, once=1, always=True, nothing=np.float32(0))


def inflates_on_long_texts(folder: Path) -> None:
    """Takes four bytes for every text of the examples, and 4 GB for a longer one."""
    nodes = """
        many = Where(is_long, endless, once)
        zeros = ConstantOfShape(many)
        sum = ReduceSum <keepdims = 0> (zeros)
        logits = Add(before, sum)
    """
    on_long_texts(folder, nodes, endless=[10**9], once=[1])


def stalls_on_long_texts(folder: Path) -> None:
    """One operator that computes for many seconds, between whose beginning and end nobody can end it."""
    nodes = """
        sizes = Where(is_long, endless, once)
        matrix = Expand(number, sizes)
        product = MatMul(matrix, matrix)
        sum = ReduceSum <keepdims = 0> (product)
        added = Cast <to = 1> (sum)
        logits = Add(before, added)
    """
    # Of whole numbers, whose products nobody has made fast: 20 s, where those of floats would be one.
    on_long_texts(folder, nodes, endless=[3000, 3000], once=[1, 1], number=0)


def has_weights_beside(folder: Path) -> None:
    """Weights in a file of their own, which the runtime would map from where it lies."""

    def change(model: onnx.ModelProto) -> None:
        tensor = next(each for each in model.graph.initializer if each.name == "embedding")
        data = onnx.numpy_helper.to_array(tensor).tobytes()
        replace_file(folder, "weights.bin", data)
        for field in ("raw_data", "float_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", "weights.bin"), ("length", str(len(data)))):
            tensor.external_data.add(key=key, value=value)

    change_graph(folder, change)


@pytest.fixture(scope="module")
def metrics(frontends: int) -> int:
    return free_port()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, frontends: int) -> Path:
    return tmp_path_factory.mktemp("later")


@pytest.fixture(scope="module")
def stub(repository: Path, metrics: int, frontends: int) -> Iterator[service_pb2_grpc.AttentionServiceStub]:
    good = bundles.tiny(repository).path
    has_weights_beside(copied(good, "beside"))
    inflates_on_long_texts(copied(good, "inflates"))
    stalls_on_long_texts(copied(good, "stalls"))
    for name in ("loops", "slows"):
        loops_on_long_texts(copied(good, name))
    flags = ("--repository", str(repository), "--port", "0", "--metrics-port", str(metrics), "--provider", "cpu")
    flags += ("--frontends", str(frontends))
    limited = process(*flags, limits={"max_run_seconds": 0.5, "lanes": 1, "max_run_bytes": 2**29})
    with limited as (running, _), grpc.insecure_channel(started(running)) as channel:
        yield service_pb2_grpc.AttentionServiceStub(channel)


def status(stub: service_pb2_grpc.AttentionServiceStub, name: str) -> service_pb2.ModelStatus:
    listed = stub.ListModels(service_pb2.ListModelsRequest(), timeout=60).models
    return next(each for each in listed if each.model.name == name)


def test_a_run_that_does_not_end_is_ended_and_its_lane_answers_the_next_call(
    stub: service_pb2_grpc.AttentionServiceStub, metrics: int
) -> None:
    for _ in range(5):  # never three in a row: the model stays
        with pytest.raises(grpc.RpcError) as ended:
            stub.Predict(predict("slows", text(LONG)), timeout=60)
        assert ended.value.code() is grpc.StatusCode.INTERNAL
        assert ended.value.details() == "the model took longer than the 0.5 s that it may"
        assert stub.Predict(predict("slows", text("the cat sat")), timeout=60).predictions
        assert stub.Predict(predict("tiny", text(LONG)), timeout=60).predictions
    assert status(stub, "slows").state == service_pb2.MODEL_STATE_READY
    assert scrape(metrics)['limelight_runs_ended_total{model="slows"}'] == 5


def test_a_model_whose_runs_keep_being_ended_is_taken_out(
    stub: service_pb2_grpc.AttentionServiceStub, metrics: int
) -> None:
    for _ in range(3):
        calls = [stub.Predict.future(predict("loops", text(LONG)), timeout=60) for _ in range(4)]
        assert {call.code() for call in calls} <= {grpc.StatusCode.INTERNAL, grpc.StatusCode.FAILED_PRECONDITION}
    assert eventually(lambda: status(stub, "loops").state == service_pb2.MODEL_STATE_FAILED)
    assert status(stub, "loops").reason == REASON
    with pytest.raises(grpc.RpcError) as refused:
        stub.Predict(predict("loops", text("the cat sat")), timeout=60)
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION and REASON in refused.value.details()
    page = scrape(metrics)
    assert page['limelight_model_ready{model="loops",version="1"}'] == 0
    assert page['limelight_model_ready{model="tiny",version="1"}'] == 1
    assert page['limelight_queue_depth{model="loops"}'] == 0
    assert not any(line.startswith('limelight_model_info{model="loops"') for line in page)
    assert stub.Predict(predict("tiny", text(LONG)), timeout=60).predictions


def test_a_run_that_cannot_be_ended_is_given_up_and_another_lane_answers_the_next_call(
    stub: service_pb2_grpc.AttentionServiceStub,
) -> None:
    with pytest.raises(grpc.RpcError) as given_up:
        stub.Predict(predict("stalls", text(LONG)), timeout=60)
    assert given_up.value.code() is grpc.StatusCode.INTERNAL
    assert given_up.value.details() == "the model took too long on this input, and could not be ended"
    for _ in range(3):
        assert stub.Predict(predict("tiny", text(LONG)), timeout=60).predictions
    assert eventually(lambda: status(stub, "stalls").state == service_pb2.MODEL_STATE_FAILED)
    assert status(stub, "stalls").reason == REASON


def test_a_run_that_takes_more_memory_than_it_may_fails_and_no_other(
    stub: service_pb2_grpc.AttentionServiceStub,
) -> None:
    for _ in range(3):
        with pytest.raises(grpc.RpcError) as failed:
            stub.Predict(predict("inflates", text(LONG)), timeout=60)
        assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "make it shorter" in failed.value.details()
        for name in ("inflates", "tiny"):
            assert stub.Predict(predict(name, text("the cat sat")), timeout=60).predictions


def test_weights_that_are_cut_off_while_they_serve_end_nothing(
    stub: service_pb2_grpc.AttentionServiceStub, repository: Path
) -> None:
    before = stub.Predict(predict("beside", text(LONG), outputs=["logits"]), timeout=60)
    os.truncate(repository / "beside" / "1" / "weights.bin", 0)
    after = stub.Predict(predict("beside", text(LONG), outputs=["logits"]), timeout=60)
    assert after.predictions[0].outputs == before.predictions[0].outputs
