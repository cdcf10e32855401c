"""Frontends and engines are one server: to whoever calls, scrapes, starts or stops it."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st

from limelight.v1 import admin_pb2, service_pb2, service_pb2_grpc, values_pb2
from limelight_service.supervisor.restarts import Restarts
from tests.kit import bundles
from tests.kit.processes import alive, children, engines, frontends, process, scrape, started
from tests.kit.serving import Refusal, Running, eventually, free_port, generate, predict, refusal, serving, text

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
CONNECTIONS = 24  # the kernel gives each to one of two: all to the same one in no test run that ever will be
SENTENCE = text("the cat sat")
ROWS = 'limelight_batch_rows_sum{model="tiny"}'


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


@dataclass
class Server:
    """A server of two frontends and an engine, as a command."""

    process: subprocess.Popen[str]
    logged: list[str]
    address: str
    metrics: int

    def answered_by(self) -> list[str]:
        """Name the frontends that have answered calls, one a call."""
        lines = [json.loads(line) for line in list(self.logged)]
        return [line["process"] for line in lines if line["event"] == "request"]

    def ends(self, role: str) -> float:
        """Count the processes of a role that ended unasked."""
        return scrape(self.metrics)[f'limelight_process_ends_total{{role="{role}"}}']

    def ready(self) -> tuple[float, float]:
        """Count the engines and the frontends that are ready."""
        page = scrape(self.metrics)
        return page['limelight_processes{role="engine"}'], page['limelight_processes{role="frontend"}']


def flags(repository: Path, *more: str, metrics: int = 0, port: int = 0) -> tuple[str, ...]:
    common = ("--repository", str(repository), "--port", str(port), "--metrics-port", str(metrics))
    return (*common, "--provider", "cpu", "--frontends", "2", *more)


@pytest.fixture(scope="module")
def server(repository: Path) -> Iterator[Server]:
    metrics = free_port()
    with process(*flags(repository, metrics=metrics)) as (running, logged):
        yield Server(running, logged, started(running), metrics)


@contextmanager
def connected(address: str, count: int = CONNECTIONS) -> Iterator[list[grpc.Channel]]:
    """Open many connections to one address, each one of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with ExitStack() as stack:
        yield [stack.enter_context(grpc.insecure_channel(address, options)) for _ in range(count)]


def stubs(channels: Sequence[grpc.Channel]) -> list[Any]:
    return [service_pb2_grpc.AttentionServiceStub(each) for each in channels]


def health(*channels: grpc.Channel) -> set[int]:
    request = health_pb2.HealthCheckRequest()
    return {health_pb2_grpc.HealthStub(each).Check(request, timeout=60).status for each in channels}


def is_serving(running: Running) -> bool:
    return health(running.channel) == {SERVING}


def test_every_frontend_answers_the_same_and_metrics_are_of_all_processes(server: Server) -> None:
    before = scrape(server.metrics).get(ROWS, 0)
    with connected(server.address) as channels:
        asked = predict("tiny", SENTENCE, outputs=["logits"])
        answers = [stub.Predict(asked, timeout=60) for stub in stubs(channels)]
    assert len({answer.predictions[0].outputs["logits"].data for answer in answers}) == 1
    assert eventually(lambda: set(server.answered_by()) == {"frontend-0", "frontend-1"})
    page = scrape(server.metrics)
    assert page[ROWS] == before + CONNECTIONS
    assert server.ready() == (1, 2)
    assert page['limelight_model_ready{model="tiny",version="1"}'] == 1
    assert page['limelight_inflight_requests{model="tiny"}'] == 0
    for child in children(server.process.pid):  # a product of matrices is computed by its thread and no other core
        assert b"OPENBLAS_NUM_THREADS=1" in Path(f"/proc/{child}/environ").read_bytes().split(b"\0")


def test_no_other_server_takes_the_port(server: Server, repository: Path) -> None:
    port = server.address.rpartition(":")[2]
    for count in ("0", "1"):
        with process(*flags(repository), "--port", port, "--frontends", count) as (other, logged):
            assert other.wait(timeout=60) == 1
        assert "cannot listen on 127" in logged[-1]


def test_a_frontend_that_is_killed_is_replaced_and_calls_go_on(server: Server) -> None:
    ends, running = server.ends("frontend"), frontends(server.process.pid)
    before = scrape(server.metrics).get(ROWS, 0)
    os.kill(running[0], signal.SIGKILL)
    with connected(server.address) as channels:
        for stub in stubs(channels):
            assert eventually(partial(answers, stub), 60)
        assert eventually(lambda: server.ready() == (1, 2), 60)
        assert server.ends("frontend") == ends + 1
    now = frontends(server.process.pid)
    assert len(now) == 2 and running[1] in now and running[0] not in now
    # The counts of the frontend that ended are still there, and nothing is counted twice.
    assert scrape(server.metrics)[ROWS] == before + CONNECTIONS
    assert any("ended by SIGKILL; another takes its place" in line for line in server.logged)
    answered = len(server.answered_by())
    with connected(server.address) as channels:
        assert health(*channels) == {SERVING}
        for stub in stubs(channels):
            stub.Predict(predict("tiny", SENTENCE), timeout=60)
    assert eventually(lambda: set(server.answered_by()[answered:]) == {"frontend-0", "frontend-1"})


def test_a_successor_takes_no_call_before_it_knows_the_models(server: Server) -> None:
    """Callers that connect meanwhile reach the other frontend; those of the one that ended are told of it alone."""
    told: list[str] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            with connected(server.address, 1) as channels:
                try:
                    stubs(channels)[0].Predict(predict("tiny", SENTENCE), timeout=60)
                except grpc.RpcError as error:
                    told.append(error.details())  # type: ignore[attr-defined]

    callers = [threading.Thread(target=ask) for _ in range(4)]
    for each in callers:
        each.start()
    try:
        for _ in range(3):
            ends = server.ends("frontend")
            os.kill(frontends(server.process.pid)[0], signal.SIGKILL)
            assert eventually(lambda: server.ends("frontend") > ends, 60)  # noqa: B023
            assert eventually(lambda: server.ready() == (1, 2), 60)
    finally:
        over.set()
        for each in callers:
            each.join()
    assert not [each for each in told if "loaded" in each]


def test_the_last_frontend_that_is_killed_is_replaced_at_once_however_often(server: Server) -> None:
    def at_once() -> int:
        return sum("frontend" in line and "takes its place at once" in line for line in list(server.logged))

    for _ in range(3):
        assert eventually(lambda: server.ready() == (1, 2), 60)  # one that starts later would make another the last
        before = at_once()
        for each in frontends(server.process.pid):
            os.kill(each, signal.SIGKILL)
        assert eventually(lambda: at_once() > before)  # noqa: B023
        with connected(server.address, 1) as channels:
            (stub,) = stubs(channels)
            assert eventually(partial(answers, stub), 60)


def answers(stub: service_pb2_grpc.AttentionServiceStub) -> bool:
    """Tell whether a frontend that has just begun answers; until it does, it is unavailable and nothing else."""
    try:
        return bool(stub.Predict(predict("tiny", SENTENCE), wait_for_ready=True, timeout=60).predictions)
    except grpc.RpcError as error:
        assert error.code() is grpc.StatusCode.UNAVAILABLE, error
        return False


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 20.0]), st.booleans()), max_size=12))
def test_a_process_is_started_again_at_once_unless_it_keeps_ending(ends: list[tuple[float, bool]]) -> None:
    restarts = Restarts()
    for number, (served, is_last) in enumerate(ends):
        pause = restarts.pause(served, is_last=is_last)
        assert pause <= (5 if not is_last else 0 if served else 0.5)
        assert pause == 0 or not (number == 0 or served > 10)


def test_a_process_that_keeps_ending_waits_longer_each_time() -> None:
    restarts = Restarts()
    assert [restarts.pause(1.0, is_last=False) for _ in range(6)] == [0, 0.5, 1, 2, 4, 5]
    assert restarts.pause(11.0, is_last=False) == 0


def test_an_engine_that_stands_still_or_is_killed_is_told_of_and_replaced(repository: Path) -> None:
    with serving(repository, frontends=2, metrics_port=free_port()) as running:
        metrics, (killed,) = running.server.metrics_port, engines(os.getpid())
        os.kill(killed, signal.SIGSTOP)
        try:
            assert eventually(lambda: health(running.channel) == {NOT_SERVING}, 60)
        finally:
            os.kill(killed, signal.SIGCONT)
        assert eventually(lambda: is_serving(running), 60)
        for _ in range(3):
            running.stub.Predict(predict("tiny", SENTENCE), timeout=60)
        before = scrape(metrics)[ROWS]
        stream = running.stub.Generate(generate("endless", text("the cat")))
        next(stream)
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(grpc.RpcError) as caught:
            list(stream)
        told, answered = [refusal(caught.value)], 0
        while len(told) < 4 and not answered:  # while no engine is there
            if refused := tried(running):
                told.append(refused)
            else:
                answered = 1
        assert all((each.code, each.reason) == ("UNAVAILABLE", "MODEL_UNAVAILABLE") and each.retry for each in told)
        assert eventually(lambda: not tried(running), 60)  # health may speak of the engine that was, for a moment
        assert eventually(lambda: is_serving(running), 60)
        page = scrape(metrics)
        assert page['limelight_process_ends_total{role="engine"}'] == 1
        assert page[ROWS] == before + 1 + answered  # nothing is lost, and nothing counted twice
        (replacing,) = engines(os.getpid())
        assert replacing != killed
    assert eventually(lambda: not alive(replacing))


def change(running: Running, method: str, name: str, version: int = 1) -> bytes:
    """Load or unload a version as an operator does."""
    kind = admin_pb2.LoadModelRequest if method == "LoadModel" else admin_pb2.UnloadModelRequest
    request = kind(model=values_pb2.Model(name=name, version=version)).SerializeToString()
    answer: bytes = running.channel.unary_unary(f"/limelight.v1.AdminService/{method}")(request, timeout=60)
    return answer


def listed(address: str) -> set[tuple[tuple[str, int], ...]]:
    """List the models of every frontend."""
    with connected(address) as channels:
        found = [stub.ListModels(service_pb2.ListModelsRequest(), timeout=60).models for stub in stubs(channels)]
    return {tuple((each.model.name, each.state) for each in models) for models in found}


def test_models_come_and_go_in_every_process_and_a_restarted_engine_has_the_same(tmp_path: Path) -> None:
    ready = service_pb2.MODEL_STATE_READY
    bundles.tiny(tmp_path)
    bundles.tiny(tmp_path, "leaving")
    with serving(tmp_path, frontends=2, model_control="explicit") as running:
        address = running.server.address
        bundles.tiny(tmp_path, "coming")
        bundles.tiny(tmp_path, "unasked")
        assert listed(address) == {(("leaving", ready), ("tiny", ready))}
        loaded = admin_pb2.LoadModelResponse.FromString(change(running, "LoadModel", "coming")).status
        assert (loaded.state, loaded.is_default) == (ready, True)
        assert running.stub.Predict(predict("coming", SENTENCE), timeout=60).predictions
        change(running, "UnloadModel", "leaving")
        with pytest.raises(grpc.RpcError) as caught:
            running.stub.Predict(predict("leaving", SENTENCE), timeout=60)
        assert refusal(caught.value).code == "NOT_FOUND"
        wanted = {(("coming", ready), ("tiny", ready))}
        assert eventually(lambda: listed(address) == wanted)
        (engine,) = engines(os.getpid())
        os.kill(engine, signal.SIGKILL)
        assert eventually(lambda: engines(os.getpid()) not in ([], [engine]), 60)
        assert eventually(lambda: listed(address) == wanted, 60)
        assert running.stub.Predict(predict("coming", SENTENCE), timeout=60).predictions
        for method, name, code in (
            ("LoadModel", "coming", "UNAVAILABLE"),
            ("LoadModel", "nothing", "NOT_FOUND"),
            ("UnloadModel", "nothing", "NOT_FOUND"),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                change(running, method, name)
            assert refusal(caught.value).code == code


def threads_of(pid: int) -> list[str]:
    return [each.read_text().strip() for each in Path(f"/proc/{pid}/task").glob("*/comm")]


def test_two_devices_are_two_engines_that_share_the_rows_and_the_cores(repository: Path) -> None:
    metrics = free_port()
    with serving(repository, frontends=1, gpu_devices="0,1", cores=2, metrics_port=metrics) as running:
        both = engines(os.getpid())
        assert len(both) == 2
        for each in both:
            assert {name for name in threads_of(each) if name.startswith("worker-")} == {"worker-0"}
        took: dict[int, int] = {each: processor_time(each) for each in both}

        def worked() -> bool:
            calls = [running.stub.Predict.future(predict("tiny", *[SENTENCE] * 64), timeout=60) for _ in range(12)]
            assert all(len(each.result().predictions) == 64 for each in calls)
            return all(processor_time(each) >= took[each] + 5 for each in both)

        assert eventually(worked, 60)
        assert scrape(metrics)['limelight_model_ready{model="tiny",version="1"}'] >= 1
        os.kill(both[0], signal.SIGKILL)  # the other goes on meanwhile
        assert eventually(lambda: both[0] not in engines(os.getpid()))
        assert eventually(lambda: tried(running) is None)
        assert is_serving(running)


def tried(running: Running) -> Refusal | None:
    """Make a call that may be told to come back."""
    try:
        assert running.stub.Predict(predict("tiny", SENTENCE), timeout=60).predictions
    except grpc.RpcError as error:
        assert refusal(error).code == "UNAVAILABLE"
        return refusal(error)
    return None


def processor_time(pid: int) -> int:
    """Count the ticks of the processor's time that a process has had."""
    after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(after[11]) + int(after[12])


def test_nobody_is_told_that_it_serves_until_every_engine_has_its_models(repository: Path) -> None:
    port = free_port()
    with process(*flags(repository, port=port)) as (running, _):
        assert eventually(lambda: len(engines(running.pid)) == 1, 60)
        (engine,) = engines(running.pid)
        os.kill(engine, signal.SIGSTOP)
        with connected(f"127.0.0.1:{port}", 4) as channels:
            for each in channels:
                grpc.channel_ready_future(each).result(timeout=60)
            assert health(*channels) == {NOT_SERVING}
        os.kill(engine, signal.SIGCONT)
        with connected(started(running)) as channels:
            assert health(*channels) == {SERVING}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_stop_in_order_and_the_status_is_0(repository: Path, number: signal.Signals) -> None:
    """SIGINT as a job in the background, which its children would ignore."""
    limits = ("--drain-seconds", "1", "--grace-seconds", "60")
    with process(*flags(repository, *limits), background=number is signal.SIGINT) as (running, logged):
        with connected(started(running)) as channels:
            own = children(running.pid)
            assert len(own) == 3
            options = service_pb2.GenerationOptions(max_new_tokens=1_000)
            request = generate("endless", text("the cat"), generation=options)
            streams = [stub.Generate(request) for stub in stubs(channels[:8])]
            for stream in streams:
                next(stream), next(stream)
            watched = [health_pb2_grpc.HealthStub(each).Watch(health_pb2.HealthCheckRequest()) for each in channels]
            assert {next(watch).status for watch in watched} == {SERVING}
            running.send_signal(number)
            assert {next(watch).status for watch in watched} == {NOT_SERVING}
            assert stubs(channels)[-1].Predict(predict("tiny", text("the cat")))
            for stream in streams:
                *_, last = stream
                assert last.end.sequences[0].finish_reason == service_pb2.FINISH_REASON_LENGTH
        assert running.wait(timeout=60) == 0
        assert not [pid for pid in own if alive(pid)]
    assert any(json.loads(line)["event"] == "stopping" for line in logged)


def test_a_second_signal_ends_all_at_once(repository: Path) -> None:
    with process(*flags(repository, "--drain-seconds", "600")) as (running, logged):
        started(running)
        own = children(running.pid)
        running.send_signal(signal.SIGTERM)
        assert eventually(lambda: any('"stopping"' in line for line in logged))
        assert running.poll() is None and children(running.pid) == own
        time.sleep(1.5)  # within a second it would be the same request
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) != 0
        assert eventually(lambda: not [pid for pid in own if alive(pid)])


def test_processes_end_with_their_supervisor(repository: Path) -> None:
    with process(*flags(repository)) as (running, _):
        started(running)
        own = children(running.pid)
        assert len(own) == 3
        running.kill()
        assert eventually(lambda: not [pid for pid in own if alive(pid)], 30)


def test_a_start_that_fails_says_why_once_and_leaves_no_process(repository: Path) -> None:
    with serving(repository) as alone, process(*flags(repository, port=alone.server.port)) as (running, logged):
        assert running.wait(timeout=60) == 1
        assert "cannot listen on 127" in logged[-1]
    with process(*flags(repository), "--provider", "cuda") as (running, logged):
        assert running.wait(timeout=60) == 1
        assert not children(running.pid)
    assert any("CUDA" in line for line in logged)
