"""What a server says reaches a terminal without controlling it, by every command."""

import json
import re
import resource
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from PIL import Image

import limelight
from limelight import cli
from limelight.base.printing import printable
from limelight.base.tensors import to_tensor
from limelight.v1 import admin_pb2, admin_pb2_grpc, attention_pb2, model_pb2, service_pb2, service_pb2_grpc, values_pb2
from tests.client.command.people import in_terminal

# A title, the screen, the same in one byte, the direction of letters, a step back, the line again, and one of no plane.
EVIL = "evil\x1b]0;owned\x07\x1b[2J\x9b2J\u202e\x08\r\x7f\u2028\U000e0041"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\U000e0041]")
MODEL = values_pb2.Model(name=EVIL, version=1)
STATUS = service_pb2.ModelStatus(model=MODEL, state="MODEL_STATE_READY", is_default=True, title=EVIL, reason=EVIL)


def answer() -> service_pb2.Prediction:
    tokens = attention_pb2.LabelSet(name=EVIL, kind="LABEL_KIND_TOKENS", size=2, texts=[EVIL, "b"])
    classes = [service_pb2.ClassProbability(label=EVIL, probability=1)]
    sequence = service_pb2.Sequence(text=EVIL, log_probabilities=[-1])
    results = [
        service_pb2.Result(name=EVIL, classification=service_pb2.Classification(classes=classes)),
        service_pb2.Result(name="texts", sequences=service_pb2.Sequences(sequences=[sequence])),
    ]
    provenance = service_pb2.Provenance(model=MODEL, provider=EVIL, graph=EVIL)
    return service_pb2.Prediction(label_sets=[tokens], results=results, provenance=provenance)


def attention_map() -> attention_pb2.AttentionMap:
    weights = to_tensor(np.full((1, 2, 2), 0.5, np.float32))
    return attention_pb2.AttentionMap(name=EVIL, query_labels=EVIL, key_labels=EVIL, heads=[0], weights=weights)


class _Evil(service_pb2_grpc.AttentionServiceServicer, admin_pb2_grpc.AdminServiceServicer):
    def ListModels(self, request: Any, context: Any) -> Any:
        return service_pb2.ListModelsResponse(models=[STATUS])

    def GetModel(self, request: Any, context: Any) -> Any:
        described = model_pb2.ModelDescription(
            name=EVIL,
            title=EVIL,
            summary=EVIL,
            task="TASK_CLASSIFICATION",
            inputs=[model_pb2.InputDescription(name="text", kind="INPUT_KIND_TEXT", summary=EVIL)],
            maps=[model_pb2.MapDescription(name=EVIL, heads=1, query_labels=EVIL, key_labels=EVIL, summary=EVIL)],
            citation=model_pb2.Citation(authors=[EVIL], title=EVIL, venue=EVIL),
            metrics=[model_pb2.Metric(name=EVIL, split=EVIL, baseline_name=EVIL)],
        )
        status = service_pb2.ModelStatus()
        status.CopyFrom(STATUS)
        if request.model.name == "failed":
            status.state = service_pb2.MODEL_STATE_FAILED
        return service_pb2.GetModelResponse(status=status, description=described)

    def Predict(self, request: Any, context: Any) -> Any:
        if request.model.name == "refused":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, EVIL.replace("\r", ""))
        return service_pb2.PredictResponse(predictions=[answer() for _ in request.instances])

    def Attend(self, request: Any, context: Any) -> Any:
        results = [service_pb2.Attended(prediction=answer(), maps=[attention_map()]) for _ in request.instances]
        return service_pb2.AttendResponse(results=results)

    def Explain(self, request: Any, context: Any) -> Any:
        message = service_pb2.Explanation(prediction=answer(), units=answer().label_sets[0], rows=3)
        message.target.MergeFrom(service_pb2.ExplainedTarget(result=EVIL, label=EVIL, score_kind=1, score=-1))  # type: ignore[arg-type]
        for way in (service_pb2.WAY_ATTENTION, service_pb2.WAY_ERASE):
            message.ways.add(way=way, values=[0.5, -0.5], maps=[EVIL])
        message.agreements.add(first=service_pb2.WAY_ATTENTION, second=service_pb2.WAY_ERASE)
        return service_pb2.ExplainResponse(explanations=[message for _ in request.instances])

    def Generate(self, request: Any, context: Any) -> Any:
        yield service_pb2.GenerateResponse(start=service_pb2.GenerationStart(label_sets=answer().label_sets))
        yield service_pb2.GenerateResponse(token=service_pb2.GeneratedToken(text=EVIL, delta=EVIL))
        sequences = answer().results[1].sequences.sequences
        yield service_pb2.GenerateResponse(end=service_pb2.GenerationEnd(sequences=sequences))

    def LoadModel(self, request: Any, context: Any) -> Any:
        status = service_pb2.ModelStatus(model=MODEL, state="MODEL_STATE_FAILED", reason=EVIL)
        return admin_pb2.LoadModelResponse(status=status)


@pytest.fixture(scope="module")
def evil() -> Iterator[str]:
    """The address of a server whose every string is evil."""
    server = grpc.server(futures.ThreadPoolExecutor(4))
    service_pb2_grpc.add_AttentionServiceServicer_to_server(_Evil(), server)  # type: ignore[no-untyped-call]
    admin_pb2_grpc.add_AdminServiceServicer_to_server(_Evil(), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


COMMANDS = {
    "models": "models",
    "a model": "models m",
    "predict": "predict m a",
    "attend": "attend m a",
    "each head": "attend m a --head 0",
    "explain": "explain m a",
    "generate": "generate m a",
    "load": "load m",
    "a failed model": "predict failed a",
    "a refusal": "predict refused a",
    "bench": "bench m a -n 2 --warmup 0",
    "a failing bench": "bench refused a -n 2 --warmup 0",
    "evaluate": "evaluate m --data DATA",
    "a file": "predict m --file DATA",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_texts_of_a_server_do_not_control_a_pipe(
    name: str, evil: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps({"text": "a"}) + "\n")
    assert cli.main([*COMMANDS[name].replace("DATA", str(data)).split(), "--target", evil]) in (0, 1)
    said, errors = capsys.readouterr()
    assert not CONTROLS.search(said) and not CONTROLS.search(errors), (said, errors)
    assert name in ("bench", "evaluate") or "evil\\u001b]0;owned" in said + errors


@pytest.mark.parametrize("command", ["models", "models m", "attend m a", "explain m a", "generate m a"])
def test_texts_of_a_server_do_not_control_a_terminal(command: str, evil: str) -> None:
    seen = in_terminal(*command.split(), "--target", evil).replace("\r\n", "\n")
    own = re.sub(r"\r?\x1b\[(?:[0-9;]*[mKAG]|\?25[hl])", "", seen)  # colours, and what rewrites a line
    assert not CONTROLS.search(own.replace("\r", "")) and "owned" in own
    assert not re.search(r"\x1b\[2J", seen)


def test_answers_themselves_stay_as_they_are(evil: str, capsys: pytest.CaptureFixture[str]) -> None:
    with limelight.Client(evil) as client:
        found = client.attend("m", {"text": "a"})
        assert found.label == EVIL and found.maps[0].key.labels[0] == EVIL
        assert not any(CONTROLS.search(repr(each)) for each in (found, found.prediction, client.model("m")))
        with pytest.raises(limelight.InvalidArgument) as caught:
            client.predict("refused", {"text": "a"})
        assert not CONTROLS.search(str(caught.value))
    assert cli.main(["attend", "m", "a", "--json", "--target", evil]) == 0
    said = capsys.readouterr().out
    assert json.loads(said)["prediction"]["label"] == EVIL and not CONTROLS.search(said)


def test_letters_of_every_language_stay_as_they_are() -> None:
    text = "café e\u0301 \u0928\u094d\u200d\u092f \u0645\u06cc\u200c\u062e 日本\u3000語 👩\u200d💻\ttab\n"
    assert printable(text) == text and printable("a\r\nb") == "a\nb"


def test_texts_of_a_server_are_drawn(evil: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture, page, report = tmp_path / "made" / "a.png", tmp_path / "report.html", tmp_path / "bench.html"
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps({"text": "a"}) + "\n")
    assert cli.main(["attend", "m", "a", "--png", str(picture), "--target", evil]) == 0
    with Image.open(picture) as opened:
        assert opened.width > 100
    assert cli.main(["evaluate", "m", "--data", str(data), "--html", str(page), "--target", evil]) in (0, 1)
    assert cli.main(["bench", "refused", "a", "-n", "2", "--warmup", "0", "--html", str(report), "--target", evil]) == 1
    with limelight.Client(evil) as client:
        shown = [each("m", {"text": "a"})._repr_html_() for each in (client.attend, client.explain)]
        client.explain("m", {"text": "a"}).save(picture)
    for written in (page.read_text(), report.read_text(), *shown):
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", written)
    capsys.readouterr()


@pytest.mark.parametrize(
    "option", ["evaluate m --data DATA --out", "bench m a -n 1 --html", "attend m a --png", "explain m a --save"]
)
def test_a_file_that_cannot_be_written_is_named_and_not_left(
    option: str, evil: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data := tmp_path / "rows.jsonl").write_text(json.dumps({"text": "a"}) + "\n")
    file, limits = tmp_path / "out.png", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        status = cli.main([*option.replace("DATA", str(data)).split(), str(file), "--target", evil])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 1 and f"{file}: File too large" in capsys.readouterr().err and not file.exists()
