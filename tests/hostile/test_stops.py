"""Stops: nobody who tries again notices, whatever runs, loads, hangs or is asked meanwhile, read or unread the log."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from hostile.stops import Work, described, measure
from limelight.v1 import service_pb2, values_pb2
from limelight_service.supervisor.in_process import InProcessServer
from tests.hostile.capped import LOCAL, answering, good
from tests.kit import bundles
from tests.kit.processes import alive, children, engines, process, scrape
from tests.kit.serving import Running, eventually, free_port, generate, predict, refusal, serving, text

CHECKING = "limelight_service.checking"
CAT = predict("tiny", text("the cat"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


@pytest.mark.parametrize(("frontends", "stops"), [(0, 1), (2, 2)])
def test_callers_who_try_again_notice_no_stop(repository: Path, frontends: int, stops: int) -> None:
    work = Work(CAT.SerializeToString(), generate("echo", text("the cat")).SerializeToString(), pause=0.02)
    flags = ("--frontends", str(frontends))
    outcome = asyncio.run(measure(repository, work, stops=stops, flags=flags, servers=2, callers=2, streams=1))
    assert not outcome.failed, described(outcome)
    assert outcome.statuses == {0: stops}
    assert outcome.answered["Predict"] > 0 and outcome.answered["Generate"] > 0


@pytest.mark.parametrize("frontends", [0, 1])
def test_while_calls_finish_others_are_answered_and_streams_are_sent_elsewhere(
    repository: Path, frontends: int
) -> None:
    with serving(repository, grace_seconds=2.0, frontends=frontends) as running, ThreadPoolExecutor() as threads:
        begun = running.stub.Generate(generate("endless", text("the cat")))
        next(begun), next(begun)
        finishing = asyncio.run_coroutine_threadsafe(running.server.finish(), running.loop)
        assert eventually(lambda: _status(running) != health_pb2.HealthCheckResponse.SERVING)
        assert running.stub.Predict(CAT, timeout=30).predictions
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
            running.stub.Predict(CAT, timeout=30)
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


@pytest.mark.parametrize("frontends", [0, 2], ids=["while a model is loaded", "while processes start"])
def test_a_signal_during_a_start_ends_all_processes_and_nothing_is_announced(repository: Path, frontends: int) -> None:
    flags = ("--repository", str(repository), *LOCAL, "--frontends", str(frontends))
    with process(*flags, before="" if frontends else SLOW) as (running, logged):

        def has_begun() -> bool:
            others = len(children(running.pid))
            return others == frontends + 1 if frontends else any("loading" in line for line in list(logged))

        assert eventually(has_begun, 120)
        others = children(running.pid)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0
        assert running.stdout is not None
        assert running.stdout.read() == ""
        assert eventually(lambda: not [pid for pid in others if alive(pid)], 30)


@pytest.mark.parametrize(("frontends", "number"), [(0, signal.SIGINT), (1, signal.SIGINT), (2, signal.SIGTERM)])
def test_signals_to_every_process_stop_a_server_once_and_in_order(
    repository: Path, frontends: int, number: signal.Signals
) -> None:
    flags = ("--frontends", frontends, "--drain-seconds", "1", "--grace-seconds", "60")
    with answering(repository, *flags, told=True) as server:
        options = service_pb2.GenerationOptions(max_new_tokens=2_000)
        model = values_pb2.Model(name="endless")
        stream = server.stub.Generate(
            service_pb2.GenerateRequest(model=model, instance=text("the cat"), generation=options)
        )
        next(stream), next(stream)
        others = whole_service(server.process)
        for _ in range(2):  # a service manager, and whoever else was told
            for pid in (*others, server.process.pid):
                os.kill(pid, number)
        assert good(server.stub)  # while it drains
        *_, last = stream
        assert last.end.sequences[0].finish_reason == service_pb2.FINISH_REASON_LENGTH
    assert eventually(lambda: not any(map(alive, others)))
    assert not [line for line in server.logged if '"error"' in line]


def whole_service(running: subprocess.Popen[str]) -> list[int]:
    """Every process of a server, the first one apart."""
    return [*children(running.pid), *children(running.pid, CHECKING)]


def test_a_process_that_is_starting_is_spared_as_well(repository: Path) -> None:
    flags = ("--frontends", "1", "--cache-dir", "none")  # bundles are checked
    with process("--repository", str(repository), *LOCAL, *flags) as (running, _):
        assert eventually(lambda: bool(children(running.pid)), 60)
        seen = set()
        end = time.monotonic() + 60
        while time.monotonic() < end and not seen & set(children(running.pid, CHECKING)):
            for pid in whole_service(running):
                seen.add(pid)
                os.kill(pid, signal.SIGTERM)
        assert running.stdout is not None and "serving on" in running.stdout.readline()
        assert set(children(running.pid)) <= seen  # nobody had to take its place
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) == 0


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
    before = STUCK.format(flag=str(flag))
    with answering(repository, "--grace-seconds", "0.5", told=True, before=before) as server:
        assert good(server.stub)
        flag.touch()
        call = server.stub.Predict.future(CAT, timeout=120)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        assert call.code() is grpc.StatusCode.UNAVAILABLE


def test_an_engine_that_is_stopped_holds_no_stop_up(repository: Path) -> None:
    with answering(repository, "--frontends", "1", "--grace-seconds", "1", told=True) as server:
        (engine,) = engines(server.process.pid)
        os.kill(engine, signal.SIGSTOP)
        call = server.stub.Predict.future(CAT, timeout=120)
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        assert call.code() is grpc.StatusCode.UNAVAILABLE
    assert not alive(engine)
    said = {line["event"]: datetime.fromisoformat(line["time"]) for line in map(json.loads, server.logged)}
    # Its grace of a second and two more, by the server's own timers; they were ten longer.
    assert said["1 processes (engine) did not stop in time and are killed"] - said["stopping"] < timedelta(seconds=10)


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


@contextmanager
def pipe(*, full: bool) -> Iterator[tuple[int, int]]:
    """A pipe of the smallest size that nobody reads: both ends."""
    there, here = os.pipe()
    size = fcntl.fcntl(here, fcntl.F_SETPIPE_SZ, 4096)
    if full:
        os.write(here, b" " * size)
    try:
        yield there, here
    finally:
        os.close(there)
        os.close(here)


@pytest.mark.parametrize("frontends", [0, 2])
def test_a_log_that_nobody_reads_stops_no_calls_and_what_is_lost_is_counted(repository: Path, frontends: int) -> None:
    port, dropped = free_port(), "limelight_log_lines_dropped_total"
    flags = ("--frontends", frontends, "--drain-seconds", "0.2", "--metrics-port", port)
    with pipe(full=False) as (there, here):
        how = {"errors": here, "limits": {"log_buffer_bytes": 4096}}
        with answering(repository, *flags, told=True, **how) as server:
            end = time.monotonic() + 60
            while scrape(port)[dropped] < 10 and time.monotonic() < end:
                assert all(good(server.stub) for _ in range(20))
            assert scrape(port)[dropped] >= 10
            os.set_blocking(there, False)
            found = read(there, "dropped")  # it flows again
            server.process.send_signal(signal.SIGTERM)
            found += read(there, "stopping")
    lost = [line["lines"] for line in found if "dropped" in line["event"]]
    assert lost and all(each > 0 for each in lost)


def read(descriptor: int, until: str) -> list[dict[str, Any]]:
    """Read lines of the log until one says so."""
    data, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        try:
            data += os.read(descriptor, 2**16)
        except BlockingIOError:
            time.sleep(0.01)
        if until.encode() in data and data.endswith(b"\n"):
            break
    return [json.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize("frontends", [0, 1])
def test_a_server_whose_log_is_stuck_stops_in_order(repository: Path, frontends: int) -> None:
    with pipe(full=True) as (_, here), answering(repository, "--frontends", frontends, errors=here) as server:
        assert all(good(server.stub) for _ in range(50))


def test_a_library_that_writes_to_a_full_pipe_itself_does_not_wait() -> None:
    program = (
        "import os; from limelight_service.observability.logs import configure_logs; configure_logs('info')\n"
        "try:\n"
        "    while True: os.write(2, b'x' * 1000)\n"
        "except BlockingIOError:\n"
        "    print('full')"
    )
    with pipe(full=False) as (_, here):
        command = [sys.executable, "-c", program]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=here, timeout=120, check=True)
        assert ended.stdout == b"full\n"
        assert os.get_blocking(here)  # others who write there are left as they were
