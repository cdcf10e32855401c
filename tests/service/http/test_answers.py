"""limelight.v1 over HTTP gives what it gives over gRPC: predictions, maps, descriptions and streams."""

import json
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import json_format
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_bundle.wire import to_array, to_tensor
from tests.kit import bundles
from tests.kit.serving import Refusal, Running, attend, generate, predict, text
from tests.service.every_door import DOORS, METHODS, as_message, ask, same
from tests.service.http.calls import call, connected, events, texts, told

WORDS = st.lists(st.sampled_from([*bundles.WORDS, "unheard"]), min_size=1, max_size=5).map(" ".join)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "reduce_heads": st.sampled_from([attention_pb2.HEAD_REDUCTION_MEAN, attention_pb2.HEAD_REDUCTION_MAX]),
        "top_k": st.integers(0, 3),
        "encoding": st.sampled_from(attention_pb2.Encoding.values()),
        "selections": st.just([{"names": ["encoder.*"], "queries": [0]}]),
        "pool": st.just({"size": 2}),
    },
)
REQUESTS = st.one_of(
    st.builds(lambda words: predict("tiny", *map(text, words)), st.lists(WORDS, min_size=1, max_size=3)),
    st.builds(lambda words, options: attend("tiny", text(words), **options), WORDS, OPTIONS),
    st.builds(lambda words: attend("echo", text(words)), WORDS),
    st.builds(lambda words: generate("echo", text(words), attention={}), WORDS),
    st.builds(
        lambda words: service_pb2.AttendStreamRequest.FromString(attend("tiny", *map(text, words)).SerializeToString()),
        st.lists(WORDS, min_size=1, max_size=2),
    ),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request_=REQUESTS)
def test_every_answer_is_the_same_by_every_door(running: Running, request_: Any) -> None:
    by_grpc, by_http = (ask(running, door, request_) for door in DOORS)
    if isinstance(by_grpc, Refusal):  # options that do not go together
        assert (by_grpc.code, by_grpc.message) == (by_http.code, by_http.message)
        return
    pairs = zip(by_grpc, by_http, strict=True) if isinstance(by_grpc, list) else [(by_grpc, by_http)]
    for one, other in pairs:
        same(other, one)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request_=REQUESTS)
def test_answers_are_framed_as_protobuf_writes_them(running: Running, request_: Any) -> None:
    """They are put together by hand: each field once, none that is unknown, no length too long."""
    name, kind = METHODS[type(request_)]
    call_ = running.channel.unary_stream(f"/limelight.v1.AttentionService/{name}")
    try:
        frames = list(call_(request_.SerializeToString(), timeout=60))
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]
        return
    for data in frames:
        message = kind.FromString(data)
        assert len(message.SerializeToString()) == len(data) and not UnknownFieldSet(message)
        message.DiscardUnknownFields()
        assert message.ByteSize() == len(data)


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


def test_events_have_the_names_of_their_messages_and_are_passed_on_at_once(running: Running) -> None:
    answer = call(running, "/v1/models/echo:generate", {"instance": texts("the cat sat")["instances"][0]})
    assert answer.headers["x-accel-buffering"] == "no"  # nginx passes each on at once
    names = [name for name, _ in events(answer)]
    assert names == ["start", *["token"] * (len(names) - 2), "end"]


def test_it_is_alive_and_ready_and_names_its_requests(running: Running) -> None:
    assert call(running, "/healthz").status == call(running, "/readyz").status == 200
    answer = call(running, "/v1/models", headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    head = call(running, "/v1/models", verb="HEAD")
    assert head.status == 200 and head.body == b"" and int(head.headers["content-length"]) > 100
