"""Triton's own client, synchronous and asyncio, gets what a client of limelight.v1 gets, and so does one in Node."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from limelight.v1 import attention_pb2
from limelight_bundle.wire import to_array
from limelight_service.open_inference import open_inference_pb2 as pb
from tests.kit.serving import Running, attend, generate, predict, text

ROOT = Path(__file__).parents[3]
NODE_PACKAGES = ROOT / "build" / "node" / "node_modules"


@pytest.fixture(scope="module", params=["grpc", "http"])
def found(running: Running, request: pytest.FixtureRequest, client_python: Callable[[str], Path]) -> Any:
    """Findings of the script beside this file with Triton's client of either protocol."""
    python = str(client_python("tritonclient"))
    if subprocess.run([python, "-c", f"import tritonclient.{request.param}.aio"], check=False).returncode:
        pytest.skip(f"Triton's client is installed without {request.param}")
    host = running.server.settings.host
    target = running.server.address if request.param == "grpc" else f"{host}:{running.server.http_port}"
    command = [python, str(Path(__file__).with_name("with_tritonclient.py")), request.param, target]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert not result.returncode, result.stderr
    return json.loads(result.stdout)


def test_its_metadata_calls_are_answered(found: Any) -> None:
    assert all(found["ready"]) and not found["not_ready"] and found["aio"]["ready"]
    assert found["server"] == "limelight" and "tiny" in found["index"]
    (given,) = found["metadata"]["inputs"]
    assert (given["name"], given["datatype"], [int(each) for each in given["shape"]]) == ("text", "BYTES", [-1, 1])
    assert found["config"].get("config", found["config"])["model_transaction_policy"] == {"decoupled": True}


def test_its_answers_are_those_of_the_other_protocol(running: Running, found: Any) -> None:
    answer = running.stub.Predict(predict("tiny", text("the cat"), text("a dog"))).predictions
    logits = [to_array(each.outputs["logits"], "logits") for each in answer]
    for given in (*found["logits"], found["aio"]["logits"]):
        np.testing.assert_allclose(given, logits, rtol=1e-3, atol=1e-5)
    for given in found["of_ids"]:
        np.testing.assert_allclose(given, logits[:1], rtol=1e-3, atol=1e-5)
    assert [row[0] for row in found["mood"]] == [each.results[0].classification.classes[0].label for each in answer]
    assert found["id"] == "mine" and found["counted"][0] >= 5 and found["counted"][1] >= 3


def test_it_asks_for_a_row_of_a_map(running: Running, found: Any) -> None:
    selection = attention_pb2.MapSelection(names=["encoder.0.self"], heads=[1], queries=[0])
    expected = running.stub.Attend(attend("tiny", text("the cat sat"), selections=[selection])).results[0].maps[0]
    for row, dtype, tokens in found["rows"]:
        np.testing.assert_allclose(row[0], to_array(expected.weights, "weights"), rtol=2e-3, atol=1e-4)
        assert dtype == "float16" and tokens == [["the", "cat", "sat"]]
    assert found["both"]


def test_its_errors_have_the_codes_and_words_of_the_server(found: Any) -> None:
    status, message = found["error"]
    assert status in ("StatusCode.INVALID_ARGUMENT", "400") and "the model takes 'text' (text)" in message
    assert found["load"][0] in ("StatusCode.FAILED_PRECONDITION", "400") and "--model-control" in found["load"][1]


def test_its_stream_gets_tokens(running: Running, found: Any) -> None:
    if "stream" not in found:
        pytest.skip("its client of HTTP has no streams")
    events = running.stub.Generate(generate("echo", text("the cat sat")))
    deltas = [[[each.token.delta]] for each in events if each.HasField("token")]
    first, *parts = found["stream"]
    assert first.startswith("[INVALID_ARGUMENT]")
    assert parts == [*deltas, [[""]]] == found["aio"]["parts"]


def test_every_field_of_ours_is_one_of_its_own(found: Any) -> None:
    """`properties` alone is none of Triton's: it is the Open Inference Protocol's."""
    known = found["fields"]
    if not known:
        pytest.skip("its client of HTTP has no messages")
    todo = list(pb.DESCRIPTOR.message_types_by_name.values())
    while todo:
        message = todo.pop()
        todo += message.nested_types
        for field in message.fields:
            if message.name in ("ModelMetadataResponse", "PropertiesEntry") and message.full_name not in known:
                continue
            if field.name != "properties":
                assert known[message.full_name][field.name] == [field.number, field.type], field.full_name
    (service,) = pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods:
        assert known[method.full_name] == [method.input_type.full_name, method.output_type.full_name]


def test_node_gets_an_answer_with_a_row_of_a_map(running: Running) -> None:
    if shutil.which("node") is None or not (NODE_PACKAGES / "@grpc" / "grpc-js").is_dir():
        pytest.skip("Node.js or @grpc/grpc-js is not installed")
    script = Path(__file__).with_name("infer.cjs")
    command = ["node", str(script), running.server.address, str(ROOT / "proto" / "inference" / "open_inference.proto")]
    environment = os.environ | {"NODE_PATH": str(NODE_PACKAGES)}
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert not result.returncode, result.stderr
    told = json.loads(result.stdout)
    answer = running.stub.Attend(attend("tiny", text("the cat sat"))).results[0]
    expected = to_array(answer.maps[0].weights, "weights")
    np.testing.assert_allclose(told["weights"], expected[1, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(told["logits"], to_array(answer.prediction.outputs["logits"], "l"), rtol=1e-4, atol=1e-5)
    assert told["tokens"] == ["the", "cat", "sat"]
    assert told["parts"][-1] is True and told["code"] == 5
