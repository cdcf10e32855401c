"""Stops: nobody who tries again notices, whatever runs, loads, hangs or is asked meanwhile."""

import asyncio
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hostile.stops import Work, described, measure
from limelight.v1 import service_pb2_grpc
from limelight_service.supervisor.in_process import InProcessServer
from tests.kit import bundles
from tests.kit.processes import alive, children, process, started
from tests.kit.serving import Running, eventually, generate, predict, refusal, serving, text

LOCAL = ("--port", "0", "--metrics-port", "0", "--provider", "cpu")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


@pytest.mark.parametrize("frontends", [0, 2])
def test_callers_who_try_again_notice_no_stop(repository: Path, frontends: int) -> None:
    work = Work(
        predict("tiny", text("the cat")).SerializeToString(),
        generate("echo", text("the cat")).SerializeToString(),
        pause=0.02,
    )
    flags = ("--frontends", str(frontends))
    outcome = asyncio.run(measure(repository, work, stops=2, flags=flags, servers=2, callers=2, streams=1))
    assert not outcome.failed, described(outcome)
    assert outcome.statuses == {0: 2}
    assert outcome.answered["Predict"] > 0 and outcome.answered["Generate"] > 0


@pytest.mark.parametrize("frontends", [0, 1])
def test_while_calls_finish_others_are_answered_and_streams_are_sent_elsewhere(
    repository: Path, frontends: int
) -> None:
    with serving(repository, grace_seconds=3.0, frontends=frontends) as running, ThreadPoolExecutor() as threads:
        begun = running.stub.Generate(generate("endless", text("the cat")))
        next(begun), next(begun)
        finishing = asyncio.run_coroutine_threadsafe(running.server.finish(), running.loop)
        assert eventually(lambda: _status(running) != health_pb2.HealthCheckResponse.SERVING)
        assert running.stub.Predict(predict("tiny", text("the cat")), timeout=30).predictions
        refused = threads.submit(_refused_stream, running).result()
        told = refusal(refused)
        assert (told.code, told.reason) == ("UNAVAILABLE", "STOPPING") and told.retry is not None
        trailers = dict(refused.trailing_metadata())  # type: ignore[attr-defined]
        assert int(trailers["grpc-retry-pushback-ms"]) == round(told.retry * 1000) > 0
        with pytest.raises(grpc.RpcError) as cut:
            list(begun)  # its grace ends
        assert refusal(cut.value).code == "UNAVAILABLE"
        finishing.result(timeout=30)
        with pytest.raises(grpc.RpcError) as late:
            running.stub.Predict(predict("tiny", text("the cat")), timeout=30)
        assert late.value.code() is grpc.StatusCode.UNAVAILABLE


def _status(running: Running) -> Any:
    return health_pb2_grpc.HealthStub(running.channel).Check(health_pb2.HealthCheckRequest()).status


def _refused_stream(running: Running) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        next(running.stub.Generate(generate("echo", text("the cat")), timeout=30))
    return caught.value


# A library that loads a model does not hear of anything.
SLOW = """
import onnxruntime, time
def load(*arguments, **options):
    print("loading", file=sys.stderr, flush=True)
    time.sleep(600)
onnxruntime.InferenceSession.__init__ = load
"""


def test_a_signal_while_a_model_is_loaded_ends_the_process_and_nothing_is_announced(repository: Path) -> None:
    with process("--repository", str(repository), *LOCAL, before=SLOW) as (running, logged):
        assert eventually(lambda: any("loading" in line for line in list(logged)), 120)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
        assert running.stdout is not None
        assert running.stdout.read() == ""


@pytest.mark.parametrize("frontends", [1, 2])
def test_a_signal_while_processes_start_ends_them_all_and_nothing_is_announced(
    repository: Path, frontends: int
) -> None:
    with process("--repository", str(repository), *LOCAL, "--frontends", str(frontends)) as (running, _):
        assert eventually(lambda: len(children(running.pid)) == frontends + 1, 120)
        others = children(running.pid)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
        assert running.stdout is not None
        assert running.stdout.read() == ""
        assert eventually(lambda: not [pid for pid in others if alive(pid)], 30)


# A worker thread that is inside a library does not hear of anything.
STUCK = """
import os, time
from limelight_service.engine.runtime.sessions import Session
run = Session.run
def stuck(self, *arguments, **options):
    while os.path.exists({flag!r}):
        time.sleep(0.1)
    return run(self, *arguments, **options)
Session.run = stuck
"""


def test_a_thread_that_hangs_keeps_no_process_from_ending_in_order(repository: Path, tmp_path: Path) -> None:
    flag = tmp_path / "stuck"
    flags = ("--repository", str(repository), *LOCAL, "--grace-seconds", "0.5")
    with process(*flags, before=STUCK.format(flag=str(flag))) as (running, _):
        with grpc.insecure_channel(started(running)) as channel:
            stub = service_pb2_grpc.AttentionServiceStub(channel)
            assert stub.Predict(predict("tiny", text("the cat")), timeout=60).predictions
            flag.touch()
            call = stub.Predict.future(predict("tiny", text("the cat")), timeout=120)
            time.sleep(0.3)
            running.send_signal(signal.SIGTERM)
            assert call.code() is grpc.StatusCode.UNAVAILABLE
        assert running.wait(timeout=30) == 0


@pytest.mark.parametrize("frontends", [0, 1])
def test_a_closed_terminal_stops_nothing(repository: Path, frontends: int) -> None:
    flags = ("--repository", str(repository), *LOCAL, "--frontends", str(frontends))
    with process(*flags) as (running, _):
        address = started(running)
        running.send_signal(signal.SIGHUP)
        with grpc.insecure_channel(address) as channel:
            stub = service_pb2_grpc.AttentionServiceStub(channel)
            assert stub.Predict(predict("tiny", text("the cat")), timeout=30).predictions
        assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0


def test_health_follows_the_models_that_are_there(repository: Path) -> None:
    serving_, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    with serving(repository) as running:
        assert isinstance(running.server, InProcessServer)
        store = running.server.store

        def on_loop(work: Any) -> None:
            asyncio.run_coroutine_threadsafe(work, running.loop).result(timeout=60)

        watched = health_pb2_grpc.HealthStub(running.channel).Watch(health_pb2.HealthCheckRequest())
        assert next(watched).status == serving_
        for name in ("echo", "endless", "tiny"):
            assert _status(running) == serving_
            on_loop(store.unload(name, 1))
        assert next(watched).status == not_serving
        on_loop(store.load("tiny", 1, repository / "tiny" / "1"))
        assert next(watched).status == serving_
        watched.cancel()
