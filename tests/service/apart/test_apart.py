"""One process that takes calls and one that answers them are one server, to whoever calls, scrapes, starts or stops."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bundle.wire import to_array
from export.pipeline import export_model
from limelight.v1 import service_pb2, service_pb2_grpc, values_pb2
from service.apart.remote import Remote
from service.errors import ModelUnavailableError
from service.observability.metrics import Metrics
from service.rpc.call import Call, UnaryMethod
from tests.export import tiny
from tests.service import bundles
from tests.service.processes import alive, children, process, scrape, started
from tests.service.serving import Running, attend, eventually, free_port, generate, predict, refusal, serving, text
from tests.service.streams import attend_stream, read

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
SENTENCE, TWO_WORDS = text("the cat sat"), text("the cat")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder)
    torch.manual_seed(0)
    export_model(tiny.trained(tiny.LongReader(), tiny.long_reader_card(longest=600)), folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


@pytest.fixture(scope="module")
def apart(repository: Path) -> Iterator[Running]:
    with serving(repository, apart=True, metrics_port=free_port(), lanes=1) as running:
        yield running


def status(running: Running) -> int:
    found: int = health_pb2_grpc.HealthStub(running.channel).Check(health_pb2.HealthCheckRequest()).status
    return found


def rows(running: Running, model: str) -> float:
    return scrape(running.server.metrics_port).get(f'limelight_batch_rows_sum{{model="{model}"}}', 0.0)


def without_times(message: Any) -> Any:
    """A message without what differs from call to call."""
    for each in (*getattr(message, "predictions", ()), *getattr(message, "results", ())):
        each = getattr(each, "prediction", each)
        each.ClearField("provenance")
    return message


def test_answers_are_those_of_one_process(apart: Running, repository: Path) -> None:
    whole = attend("tiny", SENTENCE, text("a dog"), outputs=("logits",))
    with serving(repository) as alone:
        for ask in (
            lambda stub: without_times(stub.Predict(predict("tiny", SENTENCE, outputs=["logits"]))),
            lambda stub: without_times(stub.Attend(whole)),
            lambda stub: stub.GetModel(service_pb2.GetModelRequest(model=values_pb2.Model(name="echo"))),
            lambda stub: [
                each.token.text for each in stub.Generate(generate("echo", TWO_WORDS)) if each.HasField("token")
            ],
        ):
            assert ask(apart.stub) == ask(alone.stub)


def test_a_stream_of_large_chunks_is_put_together(apart: Running) -> None:
    words = text(" ".join(["the cat sat"] * 150))
    (streamed,) = read(apart.stub.AttendStream(attend_stream(attend("long_reader", words))))
    (whole,) = apart.stub.Attend(attend("long_reader", words)).results
    for one, other in zip(streamed.maps(), whole.maps, strict=True):
        np.testing.assert_allclose(to_array(one.weights, "weights"), to_array(other.weights, "weights"), atol=1e-5)


def test_an_answer_that_goes_through_memory_is_whole(apart: Running) -> None:
    words = text(" ".join(["the cat sat"] * 200))
    first, *others = (apart.stub.Attend(attend("long_reader", words)) for _ in range(4))
    assert first.ByteSize() > 2**20
    assert all(without_times(each) == without_times(first) for each in others)


def test_a_reader_who_takes_nothing_holds_up_no_other_and_is_not_written_for_without_end(apart: Running) -> None:
    stream = apart.stub.Generate(generate("endless", TWO_WORDS))
    next(stream)
    for _ in range(20):
        assert apart.stub.Predict(predict("tiny", SENTENCE), timeout=30).predictions
    counted = 'limelight_tokens_total{model="endless",kind="real"}'
    seen = [scrape(apart.server.metrics_port).get(counted, 0.0)]
    # What is written ahead is bounded by what gRPC and both processes hold: then its steps stop.
    assert eventually(lambda: _same(seen, scrape(apart.server.metrics_port).get(counted, 0.0)), 60)
    stream.cancel()


def _same(seen: list[float], now: float) -> bool:
    seen.append(now)
    time.sleep(0.2)
    return seen[-1] == seen[-2]


def test_a_call_that_is_given_up_frees_what_answers(apart: Running) -> None:
    streams = [apart.stub.Generate(generate("endless", TWO_WORDS)) for _ in range(3)]
    for each in streams:
        next(each), next(each)
    in_flight = 'limelight_inflight_requests{model="endless"}'
    assert scrape(apart.server.metrics_port)[in_flight] >= 3
    for each in streams:
        each.cancel()
    assert eventually(lambda: scrape(apart.server.metrics_port)[in_flight] == 0)
    assert apart.stub.Predict(predict("tiny", SENTENCE), timeout=30).predictions


def test_a_deadline_passes_on_both_sides(apart: Running) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        list(apart.stub.Generate(generate("endless", TWO_WORDS), timeout=0.5))
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
    in_flight = 'limelight_inflight_requests{model="endless"}'
    assert eventually(lambda: scrape(apart.server.metrics_port)[in_flight] == 0)


def test_what_is_wrong_is_told_as_one_process_tells_it(apart: Running, repository: Path) -> None:
    bad = [
        predict("nobody", SENTENCE),
        predict("tiny", values_pb2.Instance(inputs={"text": values_pb2.Value(text="")})),
        predict("tiny", SENTENCE, outputs=["nothing"]),
        predict("tiny"),
    ]
    with serving(repository) as alone:
        for request in bad:
            told = []
            for stub in (apart.stub, alone.stub):
                with pytest.raises(grpc.RpcError) as caught:
                    stub.Predict(request, metadata=[("x-request-id", "the-same")])
                told.append(refusal(caught.value))
            assert told[0] == told[1]
            assert told[0].request_id == "the-same"
    assert apart.stub.Predict(predict("tiny", SENTENCE)).predictions


def test_what_is_no_message_is_refused_and_the_next_call_is_answered(apart: Running) -> None:
    raw = apart.channel.unary_unary("/limelight.v1.AttentionService/Predict")
    for nonsense in (b"\xff" * 40, b"\x0a\xff", b"\x0a\x7f", bytes(100_000)):
        with pytest.raises(grpc.RpcError) as caught:
            raw(nonsense, timeout=30)
        assert refusal(caught.value).code == "INVALID_ARGUMENT"
    assert apart.stub.Predict(predict("tiny", SENTENCE), timeout=30).predictions


def test_more_than_can_be_answered_in_time_is_refused_with_a_time_to_come_back(apart: Running) -> None:
    request = attend("long_reader", text(" ".join(["the cat sat"] * 200)))
    took = []
    for _ in range(5):  # what a row costs is learned
        begun = time.monotonic()
        apart.stub.Attend(request, timeout=60)
        took.append(time.monotonic() - begun)
    calls: list[Any] = []

    def some_are_refused() -> bool:
        calls.extend([apart.stub.Attend.future(request, timeout=20 * min(took)) for _ in range(60)])
        return any(each.code() is grpc.StatusCode.RESOURCE_EXHAUSTED for each in calls)

    assert eventually(some_are_refused, 60)  # a machine may be so busy that all are given up before they are looked at
    codes = {each.code() for each in calls}
    refused = [refusal(each.exception()) for each in calls if each.code() is grpc.StatusCode.RESOURCE_EXHAUSTED]
    assert {each.reason for each in refused} == {"QUEUE_FULL"}
    assert all(each.retry is not None and each.retry > 0 for each in refused)
    assert not codes & {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
    assert apart.stub.Predict(predict("tiny", SENTENCE), timeout=60).predictions


def test_what_answers_is_replaced_when_it_dies_and_calls_are_told_so(repository: Path) -> None:
    with serving(repository, apart=True, metrics_port=free_port()) as running:
        for _ in range(3):
            running.stub.Predict(predict("tiny", SENTENCE))
        stream = running.stub.Generate(generate("endless", TWO_WORDS))
        next(stream)
        before = rows(running, "tiny")
        answering = children(os.getpid())[-1]
        os.kill(answering, signal.SIGKILL)
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
        told = refusal(caught.value)
        assert (told.code, told.reason) == ("UNAVAILABLE", "MODEL_UNAVAILABLE") and told.retry is not None
        assert eventually(lambda: status(running) == NOT_SERVING)
        with pytest.raises(grpc.RpcError) as caught:
            running.stub.Predict(predict("tiny", SENTENCE), timeout=30)
        assert refusal(caught.value).code == "UNAVAILABLE"
        assert eventually(lambda: status(running) == SERVING, 60)
        assert running.stub.Predict(predict("tiny", SENTENCE), timeout=60).predictions
        page = scrape(running.server.metrics_port)
        assert page["limelight_worker_ends_total"] == 1
        assert (
            page['limelight_batch_rows_sum{model="tiny"}'] == before + 1
        )  # nothing is lost, and nothing counted twice
        replacing = children(os.getpid())[-1]
        assert replacing != answering
    assert eventually(lambda: not alive(replacing))


def test_calls_are_told_to_come_back_once_something_answers_them_again() -> None:
    async def asked() -> ModelUnavailableError:
        remote = Remote(Metrics(), lambda ready: None, 2**20)
        remote.starts_in(16.0)
        (method,) = (each for each in remote.methods if isinstance(each, UnaryMethod) and each.name == "Predict")
        with pytest.raises(ModelUnavailableError) as caught:
            await method.handle(b"", Call("", None, ExitStack()))
        return caught.value

    found = asyncio.run(asked())
    assert found.retry_after is not None and 17 < found.retry_after < 19


def test_a_call_that_outlives_what_answered_it_does_not_end_what_takes_its_place(repository: Path) -> None:
    words = text(" ".join(["the cat sat"] * 190))
    with serving(repository, apart=True, metrics_port=free_port()) as running:
        with grpc.insecure_channel(running.server.address, [("grpc.http2.lookahead_bytes", 0)]) as channel:
            stub = service_pb2_grpc.AttentionServiceStub(channel)
            stalled = stub.AttendStream(attend_stream(attend("long_reader", words)))
            next(stalled)
            time.sleep(0.5)  # what its reader does not take holds it up
            os.kill(children(os.getpid())[-1], signal.SIGKILL)
            assert eventually(lambda: status(running) == NOT_SERVING)
            assert eventually(lambda: status(running) == SERVING, 60)
            replacing = children(os.getpid())[-1]
        assert not eventually(lambda: not alive(replacing), 1)
        assert running.stub.Predict(predict("tiny", SENTENCE), timeout=60).predictions
        assert scrape(running.server.metrics_port)["limelight_worker_ends_total"] == 1


def test_health_says_so_while_what_answers_is_there_and_does_nothing(apart: Running) -> None:
    answering = children(os.getpid())[-1]
    os.kill(answering, signal.SIGSTOP)
    try:
        assert eventually(lambda: status(apart) == NOT_SERVING)
    finally:
        os.kill(answering, signal.SIGCONT)
    assert eventually(lambda: status(apart) == SERVING)
    assert apart.stub.Predict(predict("tiny", SENTENCE), timeout=60).predictions


def flags(repository: Path, *more: str) -> tuple[str, ...]:
    return ("--repository", str(repository), "--port", "0", "--metrics-port", "0", "--provider", "cpu", *more)


def test_it_stops_in_order_and_each_call_has_one_line_in_the_log(repository: Path) -> None:
    with process(*flags(repository)) as (running, logged):
        with grpc.insecure_channel(started(running)) as channel:
            answering = children(running.pid)
            assert len(answering) == 1
            stub = channel.unary_unary("/limelight.v1.AttentionService/Predict")
            asked = predict("tiny", SENTENCE).SerializeToString()
            stub(asked, metadata=[("x-request-id", "the-one")], timeout=60)
            request = generate("echo", TWO_WORDS).SerializeToString()
            stream = channel.unary_stream("/limelight.v1.AttentionService/Generate")(request)
            next(stream)
            running.send_signal(signal.SIGTERM)
            assert list(stream)  # what is inside is finished
        assert running.wait(timeout=60) == 0
        assert eventually(lambda: not any(map(alive, answering)))
    lines = [json.loads(line) for line in logged]
    (line,) = [each for each in lines if each.get("id") == "the-one"]
    assert (line["method"], line["model"], line["version"], line["rows"]) == ("Predict", "tiny", 1, 1)
    assert line["code"] == "OK" and {"queue_ms", "compute_ms"} <= set(line)
    assert not any("worker" in each for each in lines)


def test_what_answers_ends_with_what_takes_calls(repository: Path) -> None:
    with process(*flags(repository)) as (running, _):
        started(running)
        answering = children(running.pid)
        running.kill()
        assert eventually(lambda: not any(map(alive, answering)), 60)


def test_one_process_does_both_where_it_is_told_to(repository: Path) -> None:
    with process(*flags(repository, "--no-apart")) as (running, _), grpc.insecure_channel(started(running)) as channel:
        stub = channel.unary_unary("/limelight.v1.AttentionService/Predict")
        assert stub(predict("tiny", SENTENCE).SerializeToString(), timeout=60)
        assert not children(running.pid)
