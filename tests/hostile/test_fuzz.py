"""The fuzzer: the same calls for the same seed, every call with an end, and failures made small."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from benchmarks.load import OK
from hostile import page
from hostile.fuzz import findings
from hostile.fuzz.__main__ import record
from hostile.fuzz.flight import NO_END, Flight, Over
from hostile.fuzz.golden import difference
from hostile.fuzz.memory import grown
from hostile.fuzz.requests import Planned, Requests
from hostile.fuzz.run import Report
from limelight.v1 import service_pb2, values_pb2
from tests.kit import bundles
from tests.kit.serving import Running, predict, serving, text

CALLS = 600


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
        call = server.channel.unary_stream(made.method)
        alone = [made.response.FromString(data) for data in call(made.request.SerializeToString())]
        assert difference(made.answers(each.data), alone) == ""
        assert difference(made.answers(each.data), [made.response()]) != ""


def test_a_difference_is_told_by_its_place() -> None:
    def answer(label: str, *values: bytes) -> service_pb2.PredictResponse:
        tensor = values_pb2.Tensor(data_type=values_pb2.DATA_TYPE_UINT8, shape=[len(values)], data=b"".join(values))
        named = service_pb2.ClassProbability(label=label, probability=0.5)
        result = service_pb2.Result(classification=service_pb2.Classification(classes=[named]))
        return service_pb2.PredictResponse(
            predictions=[service_pb2.Prediction(results=[result], outputs={"scores": tensor})]
        )

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


def test_growth_is_told_as_a_share_and_as_bytes_a_call() -> None:
    calls = [1000 * each for each in range(20)]
    found = grown(calls, [50.0] * 4 + [100 + 0.01 * each for each in range(16)])
    assert found is not None
    assert found.since == 4000
    assert (found.warm, found.last) == (pytest.approx(100.015), pytest.approx(100.135))
    assert found.slope == pytest.approx(0.01 * 2**20 / 1000)
    assert grown(calls[:8], [100.0] * 8) is None


def test_a_run_is_recorded_and_written_as_a_part_of_a_page() -> None:
    report = Report(seed=3, seconds=60, calls=19_000, golden={"the same": 950}, health=[0.001, 0.002])
    report.at, report.memory = [1000 * each for each in range(20)], [90.0] * 10 + [100.0] * 10
    said = "\n".join(page.fuzzed(record(report)))
    assert "19,000 calls on " in said
    assert "| growth of memory, once warm | 0.111 | 0.05 | **missed** |" in said
