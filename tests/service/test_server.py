"""A server as a whole: starting, being scraped and logged, refusing what it cannot take, stopping in order."""

import json
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from limelight.v1 import service_pb2, service_pb2_grpc, values_pb2
from limelight_bundle.errors import LimelightError
from limelight_service.engine.runtime.sessions import Session
from tests.kit import bundles
from tests.kit.processes import process, scrape, started
from tests.kit.serving import Running, attend, eventually, free_port, generate, predict, refusal, serving, text

ROOT = Path(__file__).parents[2]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


def test_calls_show_in_the_metrics(repository: Path) -> None:
    with serving(repository, metrics_port=free_port()) as running:
        port = running.server.metrics_port

        def counted(name: str, **labels: str) -> float:
            inside = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
            return scrape(port)[f"{name}{{{inside}}}"]

        assert [name for name in scrape(port) if name.startswith(f'limelight_build_info{{grpc="{grpc.__version__}"')]
        assert counted("limelight_taken", what="cores") == running.server.settings.core_count
        unary = {"grpc_type": "unary", "grpc_service": "limelight.v1.AttentionService", "grpc_method": "Attend"}
        assert counted("grpc_server_started_total", **unary) == 0
        assert not [name for name in scrape(port) if name.startswith(("grpc_server_handled", "grpc_server_handling"))]
        running.stub.Attend(attend("tiny", text("the cat"), text("a dog ran"), outputs=("logits",)))
        with pytest.raises(grpc.RpcError):
            running.stub.Attend(attend("nothing", text("the cat")))
        assert counted("grpc_server_started_total", **unary) == 2
        codes = {
            each.name: counted("grpc_server_handled_total", **unary, grpc_code=each.name) for each in grpc.StatusCode
        }
        assert {name: count for name, count in codes.items() if count} == {"OK": 1, "NOT_FOUND": 1}
        assert not [name for name in scrape(port) if name.startswith("grpc_server_handl") and "Predict" in name]
        for code in ("OK", "NOT_FOUND"):  # each by itself: refusals are quick
            timed = {**unary, "grpc_code": code}
            assert counted("grpc_server_handling_seconds_bucket", **timed, le="0.0001") == 0  # 100 µs to 30 s
            assert counted("grpc_server_handling_seconds_bucket", **timed, le="30.0") == 1
            assert counted("grpc_server_handling_seconds_count", **timed) == 1
            assert 0 < counted("grpc_server_handling_seconds_sum", **timed) < 60
            assert counted("grpc_server_handling_seconds_bucket", **timed, le="+Inf") == 1
        for stage in ("preprocess", "compute", "encode"):
            assert counted("limelight_stage_duration_seconds_count", model="tiny", stage=stage) >= 1
        assert counted("limelight_tokens_total", model="tiny", kind="real") == 5
        # Two heads and two layers of 2 x 2 and 3 x 3 weights, and the pooling map's 2 and 3, four bytes each.
        assert counted("limelight_attention_bytes_total", model="tiny") == 4 * (2 * 2 * (4 + 9) + 2 + 3)
        assert counted("limelight_model_ready", model="tiny", version="1") == 1
        assert counted("limelight_inflight_requests", model="tiny") == 0
        assert not [name for name in scrape(port) if "nothing" in name]  # no label is one that a caller invents


def hold(running: Running) -> Any:
    """Begin a sequence that does not end by itself."""
    request = generate("endless", text("the cat"))
    stream = running.stub.Generate(request)
    next(stream), next(stream)
    return stream


def test_calls_that_would_be_late_are_refused_at_once_and_the_others_are_in_time(repository: Path) -> None:
    run, one, opened, held = Session.run, predict("tiny", text("the cat")), threading.Event(), threading.Event()

    def slowly(self: Session, *arguments: Any, **options: Any) -> Any:
        time.sleep(1.0)
        return run(self, *arguments, **options)

    def wait(self: Session, *arguments: Any, **options: Any) -> Any:
        held.set()
        assert opened.wait(120)
        return run(self, *arguments, **options)

    with serving(repository, metrics_port=free_port(), lanes=1, max_batch_rows=1) as running:
        with patch.object(Session, "run", slowly):
            for _ in range(4):  # what a row costs is learned
                running.stub.Predict(one, timeout=60)
        with patch.object(Session, "run", wait):
            first = running.stub.Predict.future(one, timeout=120)
            assert held.wait(60)
            try:
                calls = [running.stub.Predict.future(one, timeout=30) for _ in range(60)]

                def refused() -> list[Any]:
                    return [each for each in calls if each.done()]

                assert eventually(lambda: len(refused()) >= 20)  # before anything can be answered
                told = [refusal(each.exception()) for each in refused()]
            finally:
                opened.set()
            assert {(each.code, each.reason) for each in told} == {("RESOURCE_EXHAUSTED", "QUEUE_FULL")}
            assert all(each.retry is not None and each.retry > 0 for each in told)
            codes = [each.code() for each in calls]
            assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
            assert codes.count(grpc.StatusCode.OK) >= 5 and first.result().predictions
        counted = scrape(running.server.metrics_port)['limelight_rejected_total{reason="overload"}']
        assert counted == codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED)


def test_more_calls_than_may_wait_are_told_when_to_come_back_and_the_next_is_answered(repository: Path) -> None:
    with serving(repository, metrics_port=free_port(), pending_calls=4) as running:
        running.stub.Predict(predict("tiny", text("the cat")))  # the connection stands
        running.on_loop(lambda: time.sleep(1.0))  # the server reads nothing for a while
        calls = [
            running.stub.Predict.future(
                predict("tiny", text("the cat")), timeout=60, metadata=[("x-request-id", f"call-{number}")]
            )
            for number in range(40)
        ]
        codes = [each.code() for each in calls]
        assert set(codes) == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert codes.count(grpc.StatusCode.OK) >= 4
        for number, each in enumerate(calls):
            if codes[number] is grpc.StatusCode.RESOURCE_EXHAUSTED:
                refused = refusal(each.exception())
                assert (refused.reason, refused.request_id) == ("QUEUE_FULL", f"call-{number}")
                assert refused.retry is not None and refused.retry > 0
        refusals = codes.count(grpc.StatusCode.RESOURCE_EXHAUSTED)
        counted = scrape(running.server.metrics_port)
        assert counted['limelight_rejected_total{reason="overload"}'] == refusals
        exhausted = 'grpc_code="RESOURCE_EXHAUSTED",grpc_method="Predict"'
        assert [value for name, value in counted.items() if exhausted in name and "handled_total" in name] == [refusals]
        assert running.stub.Predict(predict("tiny", text("the cat")), timeout=30).predictions


def test_a_cancelled_call_ends_its_work(repository: Path) -> None:
    with serving(repository, metrics_port=free_port(), lanes=1, max_batch_rows=1) as running:
        busy = hold(running)
        in_flight = 'limelight_inflight_requests{model="endless"}'
        assert scrape(running.server.metrics_port)[in_flight] == 1
        busy.cancel()
        assert eventually(lambda: scrape(running.server.metrics_port)[in_flight] == 0)
        assert running.stub.Predict(predict("tiny", text("the cat")), timeout=30).predictions  # the one lane is free
        cancelled = 'grpc_code="CANCELLED",grpc_method="Generate"'
        assert any(cancelled in name and value == 1 for name, value in scrape(running.server.metrics_port).items())


def test_a_call_that_arrives_after_its_deadline_is_never_computed(repository: Path) -> None:
    with serving(repository, metrics_port=free_port()) as running:
        running.stub.Predict(predict("tiny", text("the cat")))  # the connection stands
        prepared = 'limelight_stage_duration_seconds_count{model="tiny",stage="preprocess"}'
        before = scrape(running.server.metrics_port)[prepared]
        for _ in range(10):  # gRPC ends some of them itself, before anybody is told
            running.on_loop(lambda: time.sleep(0.6))  # the server looks at nothing for a while
            with pytest.raises(grpc.RpcError) as caught:
                running.stub.Predict(predict("tiny", text("the cat")), timeout=0.2)
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED  # type: ignore[attr-defined]
            assert running.stub.GetModel(service_pb2.GetModelRequest(model={"name": "tiny"})).description.name
            if scrape(running.server.metrics_port)['limelight_rejected_total{reason="deadline"}'] >= 1:
                break
        else:
            pytest.fail("no late call was counted")
        assert running.stub.Predict(predict("tiny", text("the cat"))).predictions
        assert scrape(running.server.metrics_port)[prepared] == before + 1  # the good call alone


def test_a_request_over_the_servers_limit_is_refused(repository: Path) -> None:
    with serving(repository, max_request_bytes=4096) as running:
        with pytest.raises(grpc.RpcError) as caught:
            running.stub.Predict(predict("tiny", text("x" * 5000)))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED  # type: ignore[attr-defined]
        assert running.stub.Predict(predict("tiny", text("the cat"))).predictions


def test_a_bundle_that_is_broken_is_listed_with_the_reason_and_the_others_serve(tmp_path: Path) -> None:
    bundles.tiny(tmp_path)
    bundles.tiny(tmp_path, "broken")
    (tmp_path / "broken/1/model.onnx").write_bytes(b"something else")
    with serving(tmp_path) as running:
        models = {each.model.name: each for each in running.stub.ListModels(service_pb2.ListModelsRequest()).models}
        assert models["tiny"].state == service_pb2.MODEL_STATE_READY and models["tiny"].is_default
        assert models["broken"].state == service_pb2.MODEL_STATE_FAILED and not models["broken"].is_default
        assert "model.onnx" in models["broken"].reason
        assert str(tmp_path) not in models["broken"].reason
        got = running.stub.GetModel(service_pb2.GetModelRequest(model=values_pb2.Model(name="broken")))
        assert got.status == models["broken"] and not got.HasField("description")
        with pytest.raises(grpc.RpcError) as caught:
            running.stub.Predict(predict("broken", text("the cat")))
        assert refusal(caught.value).code == "FAILED_PRECONDITION"
        assert running.stub.Predict(predict("tiny", text("the cat"))).predictions


def test_a_server_without_a_model_lists_and_does_not_say_that_it_serves(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        assert not running.stub.ListModels(service_pb2.ListModelsRequest()).models
        status = health_pb2_grpc.HealthStub(running.channel).Check(health_pb2.HealthCheckRequest()).status
        assert status == NOT_SERVING


def test_a_taken_port_and_a_repository_that_is_not_there_are_clear_errors(repository: Path, tmp_path: Path) -> None:
    with serving(repository) as running:
        taken = serving(repository, port=running.server.port)
        with pytest.raises(LimelightError, match="cannot listen on 127"), taken:
            pass
    with pytest.raises(LimelightError, match="repository"), serving(tmp_path / "nowhere"):
        pass


def test_a_stopping_server_says_so_finishes_what_it_has_and_exits_with_0(repository: Path) -> None:
    flags = ("--repository", str(repository), "--port", "0", "--metrics-port", "0", "--provider", "cpu")
    with process(*flags, "--drain-seconds", "1.5", "--grace-seconds", "20") as (running, logged):
        address = started(running)
        with grpc.insecure_channel(address) as channel, ThreadPoolExecutor() as threads:
            stub = service_pb2_grpc.AttentionServiceStub(channel)
            health = health_pb2_grpc.HealthStub(channel)
            options = service_pb2.GenerationOptions(max_new_tokens=5_000)
            slow = stub.Generate(
                service_pb2.GenerateRequest(
                    model=values_pb2.Model(name="endless"), instance=text("the cat"), generation=options
                )
            )
            next(slow), next(slow)
            rest = threads.submit(lambda: list(slow))
            watched = health.Watch(health_pb2.HealthCheckRequest())
            assert next(watched).status == SERVING
            running.send_signal(signal.SIGTERM)
            assert next(watched).status == NOT_SERVING  # first of all, load balancers are told
            assert stub.Predict(predict("tiny", text("the cat"))).predictions  # and until they know, calls are answered
            assert eventually(lambda: _refused(stub), 15)
            events = rest.result(timeout=60)  # what was admitted is finished
            assert events[-1].end.sequences[0].finish_reason == service_pb2.FINISH_REASON_LENGTH
        assert running.wait(timeout=30) == 0
    lines = [json.loads(line) for line in logged]
    assert any(line["event"] == "stopping" for line in lines)


def _refused(stub: Any) -> bool:
    try:
        stub.Predict(predict("tiny", text("the cat")), timeout=5)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE  # type: ignore[attr-defined]
        return True
    return False


def test_a_second_signal_ends_the_process_at_once(repository: Path) -> None:
    flags = ("--repository", str(repository), "--port", "0", "--metrics-port", "0", "--drain-seconds", "600")
    with process(*flags) as (running, _):
        started(running)
        running.send_signal(signal.SIGINT)
        time.sleep(1.5)  # within a second it would be the same request
        assert running.poll() is None
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) != 0


def test_each_request_is_one_line_with_its_id_and_without_its_content(repository: Path) -> None:
    flags = ("--repository", str(repository), "--port", "0", "--metrics-port", "0", "--provider", "cpu")
    with process(*flags) as (running, logged):
        with grpc.insecure_channel(started(running)) as channel:
            stub = service_pb2_grpc.AttentionServiceStub(channel)
            metadata = (("x-request-id", "order-17"),)
            stub.Predict(predict("tiny", text("secretly"), text("a dog")), metadata=metadata)
            with pytest.raises(grpc.RpcError):
                stub.Predict(predict("tiny", text("secretly " * 40)))
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
    assert "secretly" not in "".join(logged)
    good, bad = [line for line in map(json.loads, logged) if line["event"] == "request"]
    assert (good["id"], good["method"], good["model"], good["version"]) == ("order-17", "Predict", "tiny", 1)
    assert (good["rows"], good["code"]) == (2, "OK")
    assert all(good[f"{stage}_ms"] >= 0 for stage in ("total", "preprocess", "queue", "compute", "encode"))
    assert bad["code"] == "INVALID_ARGUMENT" and bad["id"]


@pytest.mark.parametrize(
    ("flags", "status", "says"),
    [
        ((), 2, "Give --repository DIR, --model NAME=FOLDER, or --checkpoint DIR"),
        (("--model", "tiny=/nowhere/at/all"), 1, "the folder /nowhere/at/all of the model tiny cannot be read"),
        (("--model", "tiny"), 2, "model is 'tiny'; give NAME=FOLDER"),
        (("--model", "tiny=/a", "--model", "tiny=/b"), 2, "which names tiny twice"),
        (("--model", "tiny=/usr"), 1, "has no bundle.json, and no version as 1/bundle.json"),
        (("--repository", "/nowhere/at/all"), 1, "/nowhere/at/all"),
        (("--port", "many"), 2, "--port"),
        (("--port", "70000"), 2, "--port is 70000"),
        (("--config", "/nowhere.toml"), 2, "/nowhere.toml"),
    ],
)
def test_a_start_that_fails_is_one_line_and_a_status(flags: tuple[str, ...], status: int, says: str) -> None:
    with process(*flags) as (running, logged):
        assert running.wait(timeout=60) == status
    assert len(logged) == 1 and says in logged[0]


def test_the_settings_that_would_be_used_can_be_printed(tmp_path: Path) -> None:
    file = tmp_path / "limelight.toml"
    file.write_text("port = 1234\ngrace_seconds = 7\n")
    with process("--config", str(file), "--port", "99", "--print-config") as (running, _):
        assert running.stdout is not None
        printed = running.stdout.read()
        assert running.wait(timeout=60) == 0
    assert "port = 99\n" in printed
    assert "grace_seconds = 7.0\n" in printed
    assert re.match(r"# Taken of this machine: cores \d+, memory_bytes \d+, held_bytes \d+", printed)
