"""The Open Inference Protocol's REST form: what curl and Triton's client send, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.serving import Running, free_port, serving
from tests.service.http.calls import call

INFER = "/v2/models/tiny/infer"


def words(*texts: str, **fields: Any) -> dict[str, Any]:
    tensor = {"name": "text", "shape": [len(texts), 1], "datatype": "BYTES", "data": list(texts)}
    return {"inputs": [tensor], **fields}


def outputs(answer: Any) -> dict[str, Any]:
    return {each["name"]: np.array(each["data"]).reshape(each["shape"]) for each in answer["outputs"]}


def test_servers_and_models_are_described(running: Running) -> None:
    server = call(running, "/v2").json
    assert server["name"] == "limelight" and {"binary_tensor_data", "limelight_attention"} <= set(server["extensions"])
    assert call(running, "/v2/health/live").json == {"live": True}
    assert call(running, "/v2/health/ready").json == {"ready": True}
    for path in ("/v2/models/tiny", "/v2/models/tiny/versions/1"):
        model = call(running, path).json
        assert model["name"] == "tiny" and model["versions"] == ["1"]
        assert model["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1, 1]}]
        assert call(running, f"{path}/ready").json == {"name": "tiny", "ready": True}
    answer = call(running, "/v2/models/nothing/ready")
    assert answer.status == 503 and answer.json == {"name": "nothing", "ready": False}


def test_configurations_statistics_and_the_repository_are_told(running: Running) -> None:
    config = call(running, "/v2/models/tiny/config").json
    assert config["name"] == "tiny" and config["input"][0]["data_type"] == "TYPE_STRING"
    assert config["max_batch_size"] == running.server.settings.max_instances
    call(running, INFER, words("the cat"))
    (of_tiny,) = call(running, "/v2/models/tiny/stats").json["model_stats"]
    assert (of_tiny["name"], of_tiny["version"]) == ("tiny", "1")
    assert of_tiny["inference_stats"]["success"]["count"] >= 1
    assert of_tiny["inference_stats"]["success"]["ns"] > 0
    assert of_tiny in [
        {**each, "last_inference": of_tiny["last_inference"]}
        for each in call(running, "/v2/models/stats").json["model_stats"]
    ]
    index = call(running, "/v2/repository/index", {"ready": True}).json
    assert {"name": "tiny", "version": "1", "state": "READY", "reason": ""} in index
    assert call(running, "/v2/repository/index", b"", headers={}).json == index
    answer = call(running, "/v2/repository/index", {"ready": 1})
    assert answer.status == 400 and answer.json["error"] == "ready is 1; it takes true or false"
    answer = call(running, "/v2/repository/models/tiny/load", {})
    assert answer.json["status"] == "FAILED_PRECONDITION" and "--model-control" in answer.json["error"]
    assert call(running, "/v2/models/nothing/stats").status == 404


def test_models_are_loaded_and_unloaded(repository: Path) -> None:
    with serving(repository, http_port=free_port(), model_control="explicit") as running:
        for form, status in (("unload", 503), ("load", 200)):
            answer = call(running, f"/v2/repository/models/tiny/{form}", {"parameters": {}})
            assert (answer.status, answer.json) == (200, {})
            assert call(running, "/v2/models/tiny/ready").status == status
        answer = call(running, "/v2/repository/models/tiny/load", {"parameters": {"config": "{}"}})
        assert answer.status == 400 and 'parameters["config"]' in answer.json["error"]
        answer = call(running, "/v2/repository/models/tiny/unload", {"parameters": []})
        assert answer.status == 400 and "parameters is" in answer.json["error"]


def test_an_id_comes_back_and_the_answer_is_json(running: Running) -> None:
    answer = call(running, INFER, words("the cat", "a dog", id="mine"))
    assert answer.headers["content-type"] == "application/json" and answer.json["id"] == "mine"


def test_tensors_go_behind_the_json_both_ways(running: Running) -> None:
    ids = np.array([[4, 5], [5, 4]], np.int64)
    size = {"binary_data_size": ids.nbytes}
    tensor = {"name": "ids", "shape": [2, 2], "datatype": "INT64", "parameters": size}
    named = [{"name": "logits", "parameters": {"binary_data": True}}, {"name": "mood"}]
    head = json.dumps({"inputs": [tensor], "outputs": named}).encode()
    lengths = {"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"}
    answer = call(running, INFER, head + ids.tobytes(), headers=lengths)
    length = int(answer.headers["inference-header-content-length"])
    told = json.loads(answer.body[:length])
    logits, mood = told["outputs"]
    assert logits["parameters"]["binary_data_size"] == len(answer.body) - length
    found = np.frombuffer(answer.body[length:], "<f4").reshape(logits["shape"])
    plain = words("unused")
    plain["inputs"] = [{"name": "ids", "shape": [2, 2], "datatype": "INT64", "data": ids.tolist()}]
    expected = outputs(call(running, INFER, plain).json)
    np.testing.assert_allclose(found, expected["logits"], rtol=1e-3, atol=1e-5)
    assert np.array(mood["data"]).tolist() == expected["mood"].reshape(-1).tolist()


def one(**fields: Any) -> dict[str, Any]:
    return {"inputs": [{"name": "ids", "shape": [1, 2], "datatype": "INT64", "data": [4, 5], **fields}]}


# What a caller counts is bounded before anything is made of it: the product of so many sizes takes half a minute.
COUNTED = [
    (one(shape=[2**63 - 1] * 60_000), "inputs[0].shape has 60000 entries; at most 9 are allowed"),
    (one(datatype="FP32", data=[], shape=[1] * 10), "inputs[0].shape has 10 entries; at most 9 are allowed"),
    ({"inputs": [{}] * 1001}, "inputs has 1001 entries; at most 1000 are allowed"),
    (words("a", outputs=[{}] * 1001), "outputs has 1001 entries; at most 1000 are allowed"),
    (words("a", parameters=dict.fromkeys(map(str, range(1001)))), "parameters has 1001 entries; at most 1000"),
    (one(parameters=dict.fromkeys(map(str, range(1001)))), "inputs[0].parameters has 1001 entries; at most 1000"),
    (
        words("a", outputs=[{"name": "encoder.0.self"}], parameters={"limelight_heads": " " * 17 + "0"}),
        'parameters["limelight_heads"] is \'   ',
    ),
]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "the request is not JSON"),
        ([], "is a list; it takes an object of id, parameters, inputs, outputs"),
        ({"instances": []}, "instances is no field here; there are id, parameters, inputs, outputs"),
        ({}, "inputs is empty"),
        ({"inputs": {}}, "inputs is an object; it takes a list"),
        (one(data=None), "inputs[0].data has null as element 0; it takes whole numbers"),
        (one(data=[4, "5"]), 'inputs[0].data has "5" as element 1; it takes whole numbers'),
        (one(data=[4]), "inputs[0].data has 1 element; shape [1, 2] needs 2"),
        (one(data=[[4], [5]]), "inputs[0].data has the shape [2, 1], stated is [1, 2]"),
        (one(datatype="INT3"), "inputs[0].datatype is 'INT3'; it may be BOOL"),
        (one(datatype="BYTES"), "inputs[0].data has 4 as element 0; BYTES take texts"),
        (one(shape=["1"]), 'inputs[0].shape has "1"; it takes whole numbers'),
        (one(shape=[2**62] * 9), "inputs[0].data has 2 elements; shape [4611686018427387904, "),
        *COUNTED,
        (one(name=3), "inputs[0].name is 3; it takes a text"),
        (one(extra=3), "inputs[0].extra is no field here"),
        (one(parameters=[]), "inputs[0].parameters is a list; it takes an object"),
        (one(parameters={"a": []}), 'inputs[0].parameters["a"] is a list; it takes a number, a text'),
        (one(parameters={"binary_data_size": 3}), "is stated beside data; send one of the two"),
        (words("a", parameters={"binary_data_output": 1}), 'parameters["binary_data_output"] is 1; it takes true'),
    ],
)
def test_what_cannot_be_read_is_told_where_and_why(running: Running, body: Any, message: str) -> None:
    answer = call(running, INFER, body if isinstance(body, bytes) else json.dumps(body).encode())
    assert answer.status == 400 and message in answer.json["error"]
    assert (answer.json["code"], answer.json["status"]) == (400, "INVALID_ARGUMENT")
    assert call(running, INFER, words("the cat")).status == 200


def test_parameters_of_loading_are_counted(running: Running) -> None:
    many = {"parameters": dict.fromkeys(map(str, range(1001)), 1)}
    for path in ("load", "unload"):
        answer = call(running, f"/v2/repository/models/tiny/{path}", many)
        assert answer.status == 400 and "parameters has 1001 entries; at most 1000" in answer.json["error"]


@pytest.mark.parametrize(
    ("size", "header", "behind", "message"),
    [
        (16, "x", b"", "inference-header-content-length is 'x'"),
        (16, "9999", b"", "inference-header-content-length is '9999'"),
        (16, "", b"\0" * 8, 'inputs[0].parameters["binary_data_size"] is 16; 8 bytes are left behind the JSON'),
        (8, "", b"\0" * 8, "inputs[0] has 8 bytes; INT64 of shape [1, 2] needs 16"),
        (16, "", b"\0" * 24, "8 bytes behind the JSON belong to no input"),
        (-1, "", b"", 'inputs[0].parameters["binary_data_size"] is -1; it takes a number of bytes'),
    ],
)
def test_bytes_behind_the_json_are_those_that_it_states(
    running: Running, size: int, header: str, behind: bytes, message: str
) -> None:
    tensor = {"name": "ids", "shape": [1, 2], "datatype": "INT64", "parameters": {"binary_data_size": size}}
    head = json.dumps({"inputs": [tensor]}).encode()
    length = {"inference-header-content-length": header or str(len(head))}
    answer = call(running, INFER, head + behind, headers=length)
    assert answer.status == 400 and message in answer.json["error"]
