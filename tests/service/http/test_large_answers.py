"""Large answers are made on threads of their own in every protocol, judged by all that they hold."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import limelight_service.codecs.oip.responses
import limelight_service.codecs.v1.responses
import limelight_service.frontend.calls
import limelight_service.frontend.core
from limelight.v1 import attention_pb2, service_pb2, values_pb2
from limelight_service.open_inference import open_inference_pb2
from tests.kit.serving import Running, attend, generate, predict, text
from tests.service.http.calls import call

STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Kinds of threads that make parts of answers: typed results, and messages of each protocol."""
    found: set[str] = set()

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            found.add(threading.current_thread().name.rpartition("-")[0] or "loop")
            return function(*arguments, **options)

        return noted

    for module, name in (
        (limelight_service.frontend.core, "prediction_of"),
        (limelight_service.codecs.v1.responses, "_prediction"),
        (limelight_service.codecs.v1.responses, "_fill_provenance"),
        (limelight_service.codecs.oip.responses, "_head"),
    ):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    yield found


def infer(words: list[str], model: str = "tiny") -> open_inference_pb2.ModelInferRequest:
    request = open_inference_pb2.ModelInferRequest(model_name=model)
    given = request.inputs.add(name="text", datatype="BYTES", shape=[len(words), 1])
    given.contents.bytes_contents.extend(each.encode() for each in words)
    return request


def made(running: Running, protocol: str, rows: int) -> None:
    """Have some rows answered."""
    words = ["the cat sat"] * rows
    match protocol:
        case "predict":
            running.stub.Predict(predict("tiny", *map(text, words)))
        case "attend":
            running.stub.Attend(attend("tiny", *map(text, words)))
        case "attend stream":
            model = values_pb2.Model(name="tiny")
            options = attention_pb2.AttentionOptions()
            instances = [*map(text, words)]
            request = service_pb2.AttendStreamRequest(model=model, instances=instances, attention=options)
            assert [*running.stub.AttendStream(request)]
        case "generate":
            assert [*running.stub.Generate(generate("echo", text(words[0])))]
        case "json":
            content = {"instances": [{"inputs": {"text": {"text": each}}} for each in words]}
            assert call(running, "/v1/models/tiny:predict", content).status == 200
        case "rest":
            given = {"name": "text", "datatype": "BYTES", "shape": [rows, 1], "data": words}
            assert call(running, "/v2/models/tiny/infer", {"inputs": [given]}).status == 200
        case "stream":
            method = running.channel.stream_stream(
                STREAM,
                request_serializer=open_inference_pb2.ModelInferRequest.SerializeToString,
                response_deserializer=open_inference_pb2.ModelStreamInferResponse.FromString,
            )
            answers = [*method(iter([infer(words), infer(words[:1], "echo")]))]
            assert answers and not any(each.error_message for each in answers)


PROTOCOLS = ["predict", "attend", "attend stream", "generate", "json", "rest", "stream"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_all_of_a_large_answer_is_made_on_threads(
    one_process: Running, threads: set[str], protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limelight_service.frontend.calls, "_LARGE_ANSWER", 1)
    made(one_process, protocol, 2)
    assert threads == {"answer"}


@pytest.mark.parametrize("protocol", ["predict", "json", "rest"])
def test_many_typed_results_are_large_whatever_their_bytes(
    one_process: Running, threads: set[str], protocol: str
) -> None:
    made(one_process, protocol, 1)
    assert "answer" not in threads
    threads.clear()
    made(one_process, protocol, 64)  # of two results each, less than 100 bytes
    assert threads == {"answer"}
