"""What attacks a server finds what it should: the fuzzer, its corpus, the soak, and rows of many callers."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import DecodeError

import limelight
from benchmarks.encoder import export_encoder
from benchmarks.encoder_sizes import MODELS, TINY
from benchmarks.load import OK
from benchmarks.process import ServerProcess, healthy
from hostile.fuzz import findings
from hostile.fuzz.flight import NO_END, Flight, Over
from hostile.fuzz.golden import difference
from hostile.fuzz.requests import Planned, Requests
from hostile.mixed import ASKED, Counts, ask, call, measure
from hostile.soak.attacks import ATTACKS
from hostile.soak.rounds import soaked_server
from limelight.v1 import service_pb2, values_pb2
from tests.kit import bundles
from tests.kit.serving import Running, predict, serving, text

CALLS = 600
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
REFUSED = {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "OUT_OF_RANGE", "NOT_FOUND", "OK"}
GOOD = predict("tiny", text("the cat sat"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with the small models."""
    repository = tmp_path_factory.mktemp("repository")
    for make in bundles.ALL:
        make(repository)
    with serving(repository) as running:
        yield running


def planned(requests: Requests, count: int) -> list[Planned]:
    return [each for number in range(count) if (each := requests.planned(number)) is not None]


@pytest.mark.parametrize("file", CORPUS or [Path("nothing")], ids=lambda file: file.stem)
def test_what_was_found_is_answered_and_what_follows_too(server: Running, file: Path) -> None:
    assert findings.send(server.channel, *findings.read(file)).name in REFUSED
    assert server.stub.Predict(GOOD).predictions
    assert healthy(server.channel)


def test_a_call_is_the_same_for_the_same_seed_and_number(server: Running) -> None:
    first, again, other = (planned(Requests.of(server.channel, seed), 200) for seed in (1, 1, 2))
    assert [(each.method, each.body) for each in first] == [(each.method, each.body) for each in again]
    assert [each.body for each in first] != [each.body for each in other]


def test_every_method_is_called_with_what_it_can_read_and_with_what_it_cannot(server: Running) -> None:
    requests = Requests.of(server.channel, 1)
    read: set[tuple[str, bool]] = set()
    for each in planned(requests, 4000):
        if each.method in requests.methods:
            try:
                requests.methods[each.method].FromString(each.body[5:])
                read.add((each.method, True))
            except DecodeError:
                read.add((each.method, False))
    assert read >= {(method, readable) for method in requests.methods for readable in (True, False)}


def test_every_call_has_an_end_none_is_a_failure_and_good_ones_are_answered_as_alone(server: Running) -> None:
    requests = Requests.of(server.channel, 7)
    ended: list[Over] = []
    flight = Flight(server.server.address, 32, random.Random(7), ended.append)
    flight.run(each for each in planned(requests, CALLS) if not each.large)
    assert len(ended) > CALLS / 2 and not flight.under_way
    assert [each for each in ended if each.is_failure or each.status == NO_END] == []
    golden = [each for each in ended if each.planned.golden is not None and each.status == OK]
    assert golden
    for each in golden:
        made = each.planned.golden
        assert made is not None
        stream = server.channel.unary_stream(made.method)
        alone = [made.response.FromString(data) for data in stream(made.request.SerializeToString())]
        assert difference(made.answers(each.data), alone) == ""
        assert difference(made.answers(each.data), [made.response()]) != ""


def test_a_difference_is_told_by_its_place() -> None:
    def answer(label: str, *values: bytes) -> service_pb2.PredictResponse:
        tensor = values_pb2.Tensor(data_type=values_pb2.DATA_TYPE_UINT8, shape=[len(values)], data=b"".join(values))
        named = service_pb2.ClassProbability(label=label, probability=0.5)
        result = service_pb2.Result(classification=service_pb2.Classification(classes=[named]))
        made = service_pb2.Prediction(results=[result], outputs={"scores": tensor})
        return service_pb2.PredictResponse(predictions=[made])

    one = answer("calm", b"\x01", b"\x02")
    assert difference([one], [answer("calm", b"\x01", b"\x02")]) == ""
    assert "label" in difference([one], [answer("lively", b"\x01", b"\x02")])
    assert "scores" in difference([one], [answer("calm", b"\x01", b"\x09")])
    assert "scores" in difference([one], [answer("calm", b"\x01")])


def test_a_failure_is_kept_read_and_made_small(tmp_path: Path) -> None:
    request = predict("tiny", text("the cat sat on a mat"), text("dog"), truncate=True)
    request.outputs.extend(["logits"] * 50 + ["bad"] + ["logits"] * 50)
    found = findings.Findings(tmp_path, most=1)
    found.keep("INTERNAL", 3, "/a/B", request.SerializeToString(), "said")
    found.keep("INTERNAL", 4, "/a/B", b"", "said")
    (file,) = tmp_path.iterdir()
    method, message = findings.read(file)
    assert (method, message) == ("/a/B", request.SerializeToString())
    small = findings.shrunk(message, service_pb2.PredictRequest, lambda each: b"bad" in each)
    assert service_pb2.PredictRequest.FromString(small) == service_pb2.PredictRequest(outputs=["bad"])
    assert findings.shrunk(b"\xff" * 20 + b"bad", service_pb2.PredictRequest, lambda each: b"bad" in each) == b"bad"


def test_a_call_that_is_given_up_is_cancelled_in_the_server(server: Running) -> None:
    requests = Requests.of(server.channel, 1)
    endless = next(each for each in map(requests.planned, range(10**5)) if each and each.method.endswith("/Watch"))
    ended: list[Over] = []
    started = time.monotonic()
    Flight(server.server.address, 4, random.Random(1), ended.append).run(iter([endless]))
    assert len(ended) == 1 and not ended[0].is_failure
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_is_made_and_a_good_call_beside_it_is_answered(server: Running, attack: Any) -> None:
    attack(server.server.address, 0.2, random.Random(1))
    assert server.stub.Predict(GOOD).predictions


@pytest.mark.parametrize("frontends", ["0", "2"])
def test_models_are_swapped_on_a_signal_and_no_call_fails(
    tmp_path: Path, frontends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMELIGHT_FRONTENDS", frontends)
    for version in (1, 2):
        bundles.tiny(tmp_path / "repository", version=version)
    with (
        soaked_server(tmp_path / "repository", tmp_path / "log") as (server, _),
        grpc.insecure_channel(server.target) as channel,
    ):
        asked = channel.unary_unary("/limelight.v1.AttentionService/Predict")
        answered: list[int] = []
        end = time.monotonic() + 600
        while len(set(answered)) < 2 or (answered[-1] == 2 and answered[-50:].count(2) < 50):
            answer = service_pb2.PredictResponse.FromString(asked(GOOD.SerializeToString(), timeout=30))
            answered.append(answer.predictions[0].provenance.model.version)
            if len(answered) == 20:
                server.signal(signal.SIGUSR1)
            assert time.monotonic() < end, "nothing was swapped"
    assert set(answered) == {1, 2}
    assert server.status == 0


def test_rows_of_many_callers_are_told_apart_and_none_is_mixed_up(tmp_path: Path) -> None:
    export_encoder(tmp_path, TINY, MODELS[TINY])
    found = measure(tmp_path, most=600, callers=3, different=60)
    assert found.rows >= 600 and found.mixed == 0
    assert found.told_apart > 0.99 and found.difference < 1e-5
    rows = [np.array(ids) for ids in ([5, 6], [7, 8], [9, 10])]
    counts = Counts()
    with ServerProcess(tmp_path) as server:
        with limelight.Client(server.target) as client:
            alone = {kind: ask(client, kind, rows) for kind in ASKED}
        turned = {kind: [*answers[1:], answers[0]] for kind, answers in alone.items()}
        call(server.target, rows, turned, counts, most=10)
    assert counts.mixed == counts.rows >= 10, "the answer of another row is found"
