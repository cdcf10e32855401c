"""limelight.v1 over HTTP gives what it gives over gRPC: predictions, maps, descriptions and streams."""

import json
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.wire import DTYPES, to_array, to_tensor
from tests.kit import bundles
from tests.kit.serving import Running, attend, generate, predict, text
from tests.service.http.calls import call, connected, events, texts, told

WORDS = st.lists(st.sampled_from([*bundles.WORDS, "unheard"]), min_size=1, max_size=5).map(" ".join)
ENOUGH = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def as_message(kind: type[Any], value: Any) -> Any:
    """Read an answer as any client of proto3 JSON would, once tensors are bytes again."""

    def tensors(item: Any) -> Any:
        if isinstance(item, list):
            return [tensors(each) for each in item]
        if not isinstance(item, dict):
            return item
        if isinstance(item.get("dataType"), str) and "shape" in item:
            dtype = DTYPES[values_pb2.DataType.Value(item["dataType"])]
            array = np.array(item["data"], dtype).reshape(item["shape"])
            return json_format.MessageToDict(to_tensor(array))
        return {name: tensors(each) for name, each in item.items()}

    return json_format.ParseDict(tensors(value), kind())


def without_origin(message: Any) -> Any:
    """A message without what differs from call to call: times, and who shared the batch."""
    for name in ("predictions", "results"):
        for each in getattr(message, name, ()):
            each = each.prediction if hasattr(each, "prediction") else each
            each.ClearField("provenance")
    return message


def same(found: Any, expected: Any) -> None:
    """Both are the same message, numbers within the tolerance of another batch."""
    one, other = (json_format.MessageToDict(without_origin(each)) for each in (found, expected))

    def compare(left: Any, right: Any) -> None:
        if isinstance(left, dict) and isinstance(right, dict):
            assert left.keys() == right.keys()
            if "dataType" in left and "data" in left:
                arrays = [to_array(json_format.ParseDict(each, values_pb2.Tensor()), "t") for each in (left, right)]
                np.testing.assert_allclose(*arrays, rtol=1e-3, atol=1e-5)
                return
            for name in left:
                compare(left[name], right[name])
        elif isinstance(left, list) and isinstance(right, list):
            assert len(left) == len(right)
            for each in zip(left, right, strict=True):
                compare(*each)
        elif isinstance(left, float) or isinstance(right, float):
            assert left == pytest.approx(right, rel=1e-3, abs=1e-5)
        else:
            assert left == right

    compare(one, other)


@ENOUGH
@given(words=st.lists(WORDS, min_size=1, max_size=3))
def test_a_prediction_is_that_of_grpc(running: Running, words: list[str]) -> None:
    answer = call(running, "/v1/models/tiny:predict", texts(*words))
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    found = as_message(service_pb2.PredictResponse, answer.json)
    same(found, running.stub.Predict(predict("tiny", *map(text, words))))


@ENOUGH
@given(
    words=WORDS,
    options=st.fixed_dictionaries(
        {},
        optional={
            "reduceHeads": st.sampled_from(["HEAD_REDUCTION_MEAN", "HEAD_REDUCTION_MAX"]),
            "topK": st.integers(0, 3),
            "encoding": st.sampled_from(["ENCODING_FLOAT16", "ENCODING_UINT8", "ENCODING_FLOAT32"]),
            "selections": st.just([{"names": ["encoder.*"], "queries": [0]}]),
        },
    ),
)
def test_attention_is_that_of_grpc(running: Running, words: str, options: dict[str, Any]) -> None:
    answer = call(running, "/v1/models/tiny/versions/1:attend", texts(words, attention=options))
    found = as_message(service_pb2.AttendResponse, answer.json)
    request = attend("tiny", text(words))
    json_format.ParseDict(options, request.attention)
    same(found, running.stub.Attend(request))


def test_numbers_are_as_short_as_they_can_be_told_apart(running: Running) -> None:
    answer = call(running, "/v1/models/tiny:attend", texts("the cat", attention={}))
    weights = answer.json["results"][0]["maps"][0]["weights"]
    flat = np.array(weights["data"], np.float32)
    assert list(flat.shape) == weights["shape"]
    assert all(len(json.dumps(each)) <= 16 for each in np.ravel(np.array(weights["data"])).tolist())


def test_arrays_come_as_bytes_where_the_caller_takes_them(running: Running) -> None:
    request = texts("the cat sat", attention={"selections": [{"names": ["encoder.0.self"]}]})
    answer = call(running, "/v1/models/tiny:attend", request, headers={"accept": "application/octet-stream"})
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers["limelight-json-length"])
    told, rest = json.loads(answer.body[:length]), answer.body[length:]
    tensor = told["results"][0]["maps"][0]["weights"]
    assert tensor["dataType"] == "DATA_TYPE_FLOAT32"
    found = np.frombuffer(rest, "<f4", tensor["bytes"] // 4, tensor["offset"]).reshape(tensor["shape"])
    selection = attention_pb2.MapSelection(names=["encoder.0.self"])
    expected = running.stub.Attend(attend("tiny", text("the cat sat"), selections=[selection])).results[0]
    np.testing.assert_allclose(found, to_array(expected.maps[0].weights, "weights"), rtol=1e-3, atol=1e-5)
    outputs = told["results"][0]["prediction"]["outputs"].values()
    assert sum(each["bytes"] for each in (tensor, *outputs)) == len(rest)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json, application/octet-stream;q=0.5", "application/json"),
        ("application/octet-stream;q=0, */*", "application/json"),
        ("APPLICATION/OCTET-STREAM, application/json;q=0.9", "application/octet-stream"),
        ("application/json;q=0.2\r\naccept: application/octet-stream;q=0.3", "application/octet-stream"),
        ("text/html", "application/json"),
    ],
)
def test_what_a_caller_takes_is_read_with_its_qualities(running: Running, accept: str, kind: str) -> None:
    with connected(running) as connection:
        connection.sendall(
            f"GET /v1/models HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\nconnection: close\r\n\r\n".encode()
        )
        assert f"\r\ncontent-type: {kind}\r\n" in told(connection).decode("latin-1")


@pytest.mark.parametrize(
    "tensor",
    [
        {"dataType": "DATA_TYPE_INT64", "data": [4, 5]},
        {"data_type": "DATA_TYPE_INT64", "shape": [2], "data": [4.0, 5]},
        json_format.MessageToDict(to_tensor(np.array([4, 5], np.int64))),
    ],
    ids=["numbers", "with a shape", "base64"],
)
def test_a_tensor_is_taken_as_numbers_and_as_bytes(running: Running, tensor: Any) -> None:
    answer = call(running, "/v1/models/tiny:predict", {"instances": [{"inputs": {"ids": {"tensor": tensor}}}]})
    instance = values_pb2.Instance(inputs={"ids": values_pb2.Value(tensor=to_tensor(np.array([4, 5], np.int64)))})
    same(as_message(service_pb2.PredictResponse, answer.json), running.stub.Predict(predict("tiny", instance)))


def test_models_are_listed_and_described(running: Running) -> None:
    listed = call(running, "/v1/models").json
    expected = running.stub.ListModels(service_pb2.ListModelsRequest())
    assert json_format.ParseDict(listed, service_pb2.ListModelsResponse()) == expected
    described = running.stub.GetModel(service_pb2.GetModelRequest(model=values_pb2.Model(name="tiny")))
    for path in ("/v1/models/tiny", "/v1/models/tiny/versions/1"):
        assert as_message(service_pb2.GetModelResponse, call(running, path).json) == described


def test_tokens_are_events(running: Running) -> None:
    request = {"instance": {"inputs": {"text": {"text": "the cat sat"}}}, "attention": {}}
    answer = call(running, "/v1/models/echo:generate", request)
    assert answer.headers["x-accel-buffering"] == "no"  # nginx passes each on at once
    found = events(answer)
    grpc_request = generate("echo", text("the cat sat"))
    grpc_request.attention.SetInParent()
    expected = list(running.stub.Generate(grpc_request))
    assert [name for name, _ in found] == [each.WhichOneof("event") for each in expected]
    for (_, event), message in zip(found[:-1], expected[:-1], strict=True):
        same(as_message(service_pb2.GenerateResponse, event), message)
    assert found[-1][1]["end"]["sequences"][0]["text"] == expected[-1].end.sequences[0].text


def test_chunks_of_maps_are_events(running: Running) -> None:
    found = events(call(running, "/v1/models/tiny:attendStream", texts("the cat", "a dog", attention={})))
    request = service_pb2.AttendStreamRequest(
        model=values_pb2.Model(name="tiny"), instances=[text("the cat"), text("a dog")]
    )
    expected = list(running.stub.AttendStream(request))
    assert [name for name, _ in found] == [each.WhichOneof("event") for each in expected]
    chunks = [each for name, each in found if name == "chunk"]
    for event, message in zip(chunks, [each for each in expected if each.HasField("chunk")], strict=True):
        same(as_message(service_pb2.AttendStreamResponse, event), message)


def test_it_is_alive_and_ready_and_names_its_requests(running: Running) -> None:
    assert call(running, "/healthz").status == call(running, "/readyz").status == 200
    answer = call(running, "/v1/models", headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    head = call(running, "/v1/models", verb="HEAD")
    assert head.status == 200 and head.body == b"" and int(head.headers["content-length"]) > 100
