"""Several processes on one port are one server: to whoever calls, scrapes, starts or stops it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from limelight.v1 import service_pb2, service_pb2_grpc, values_pb2
from tests.service import bundles
from tests.service.processes import alive, children, process, scrape, started
from tests.service.serving import eventually, free_port, predict, serving, text

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
CONNECTIONS = 24  # the kernel gives each to one of two: all to the same one in no test run that ever will be
WORKERS, ENDS = "limelight_workers", "limelight_worker_ends_total"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    return folder


@dataclass
class Together:
    """A server of two workers."""

    process: subprocess.Popen[str]
    logged: list[str]
    address: str
    port: int
    metrics: int
    repository: Path

    def answered_by(self) -> list[int]:
        """The workers that have answered calls, one an answer."""
        lines = [json.loads(line) for line in list(self.logged)]
        return [line["worker"] for line in lines if line["event"] == "request"]


def flags(repository: Path, *more: str, metrics: int = 0, port: int = 0) -> tuple[str, ...]:
    common = ("--repository", str(repository), "--port", str(port), "--metrics-port", str(metrics))
    return (*common, "--provider", "cpu", "--workers", "2", *more)


@pytest.fixture(scope="module")
def together(repository: Path) -> Iterator[Together]:
    metrics = free_port()
    with process(*flags(repository, metrics=metrics)) as (running, logged):
        address = started(running)
        yield Together(running, logged, address, int(address.rpartition(":")[2]), metrics, repository)


@pytest.fixture
def stubs(together: Together) -> Iterator[list[Any]]:
    with connected(together.address) as channels:
        yield [service_pb2_grpc.AttentionServiceStub(channel) for channel in channels]


@contextmanager
def connected(address: str, count: int = CONNECTIONS) -> Iterator[list[grpc.Channel]]:
    """Many connections to one address, each one of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with ExitStack() as stack:
        yield [stack.enter_context(grpc.insecure_channel(address, options)) for _ in range(count)]


def health(channels: Sequence[grpc.Channel]) -> set[int]:
    return {health_pb2_grpc.HealthStub(each).Check(health_pb2.HealthCheckRequest()).status for each in channels}


def test_every_worker_answers_the_same_and_metrics_are_of_all(together: Together, stubs: list[Any]) -> None:
    counted = 'limelight_batch_rows_sum{model="tiny"}'
    before = scrape(together.metrics).get(counted, 0)
    answers = [stub.Predict(predict("tiny", text("the cat sat"), outputs=["logits"]), timeout=60) for stub in stubs]
    assert len({answer.predictions[0].outputs["logits"].data for answer in answers}) == 1
    assert eventually(lambda: set(together.answered_by()) == {0, 1})
    for worker in children(together.process.pid):
        # A product of matrices on a lane is that lane's, and takes no other core.
        assert b"OPENBLAS_NUM_THREADS=1" in Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    page = scrape(together.metrics)
    assert page[counted] == before + CONNECTIONS
    assert page[WORKERS] == 2
    assert page['limelight_model_ready{model="tiny",version="1"}'] == 1
    assert page['limelight_inflight_requests{model="tiny"}'] == 0


def test_no_other_server_takes_the_port(together: Together) -> None:
    for command in (flags(together.repository, port=together.port), flags(together.repository, "--workers", "1")):
        at = (*command, "--port", str(together.port))
        with process(*at) as (other, said):
            assert other.wait(timeout=60) == 1
        assert "cannot listen on 127" in said[-1]


def test_a_worker_that_is_killed_is_replaced_and_calls_go_on(together: Together) -> None:
    request = predict("tiny", text("the cat sat"))
    ends, workers = scrape(together.metrics)[ENDS], children(together.process.pid)
    asked = scrape(together.metrics).get('limelight_batch_rows_sum{model="tiny"}', 0)
    os.kill(workers[0], signal.SIGKILL)
    with connected(together.address) as channels:
        for each in channels:
            stub = service_pb2_grpc.AttentionServiceStub(each)
            assert stub.Predict(request, wait_for_ready=True, timeout=60).predictions
    assert scrape(together.metrics)[ENDS] == ends + 1
    assert eventually(lambda: scrape(together.metrics)[WORKERS] == 2, 60)
    left = children(together.process.pid)
    assert len(left) == 2 and workers[1] in left and workers[0] not in left
    # What the killed one had told is still counted, and nothing twice.
    assert scrape(together.metrics)['limelight_batch_rows_sum{model="tiny"}'] == asked + CONNECTIONS
    assert any("ended by SIGKILL; another takes its place" in line for line in together.logged)
    with connected(together.address) as channels:
        assert health(channels) == {SERVING}
        for each in channels:
            service_pb2_grpc.AttentionServiceStub(each).Predict(request, timeout=60)
    assert eventually(lambda: set(together.answered_by()[-CONNECTIONS:]) == {0, 1})


def test_a_worker_that_takes_anothers_place_has_the_models_that_the_others_have(tmp_path: Path) -> None:
    bundles.tiny(tmp_path)
    metrics = free_port()
    with process(*flags(tmp_path, metrics=metrics)) as (running, _):
        address = started(running)
        bundles.echo(tmp_path, "later", max_new_tokens=1)
        os.kill(children(running.pid)[0], signal.SIGKILL)
        assert eventually(lambda: scrape(metrics)[ENDS] == 1, 60)
        assert eventually(lambda: scrape(metrics)[WORKERS] == 2, 60)
        with connected(address) as channels:
            stubs = [service_pb2_grpc.AttentionServiceStub(each) for each in channels]
            lists = [stub.ListModels(service_pb2.ListModelsRequest(), timeout=60) for stub in stubs]
    assert {tuple(each.model.name for each in found.models) for found in lists} == {("tiny",)}


def test_nobody_is_told_that_it_serves_until_every_worker_has_its_models(repository: Path) -> None:
    port, metrics = free_port(), free_port()
    with process(*flags(repository, port=port, metrics=metrics)) as (running, _):
        assert eventually(lambda: len(children(running.pid)) == 2, 60)
        slow = children(running.pid)[1]
        os.kill(slow, signal.SIGSTOP)
        assert eventually(lambda: scrape(metrics).get(WORKERS) == 1, 60)
        with connected(f"127.0.0.1:{port}", 4) as channels:
            assert health(channels) == {NOT_SERVING}
        os.kill(slow, signal.SIGCONT)
        with connected(started(running)) as channels:
            assert eventually(lambda: health(channels) == {SERVING})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_stop_in_order_and_the_status_is_0(repository: Path, number: signal.Signals) -> None:
    """SIGINT as a job in the background, which its children would ignore."""
    limits = ("--drain-seconds", "1", "--grace-seconds", "20")
    with process(*flags(repository, *limits), background=number is signal.SIGINT) as (running, logged):
        with connected(started(running)) as channels:
            workers = children(running.pid)
            options = service_pb2.GenerationOptions(max_new_tokens=2_000)
            request = service_pb2.GenerateRequest(
                model=values_pb2.Model(name="endless"), instance=text("the cat"), generation=options
            )
            streams = [service_pb2_grpc.AttentionServiceStub(each).Generate(request) for each in channels[:8]]
            for stream in streams:
                next(stream), next(stream)
            watched = [health_pb2_grpc.HealthStub(each).Watch(health_pb2.HealthCheckRequest()) for each in channels]
            assert {next(watch).status for watch in watched} == {SERVING}
            running.send_signal(number)
            assert {next(watch).status for watch in watched} == {NOT_SERVING}
            assert service_pb2_grpc.AttentionServiceStub(channels[-1]).Predict(predict("tiny", text("the cat")))
            for stream in streams:
                *_, last = stream
                assert last.end.sequences[0].finish_reason == service_pb2.FINISH_REASON_LENGTH
        assert running.wait(timeout=60) == 0
        assert not [pid for pid in workers if alive(pid)]
    assert any(json.loads(line)["event"] == "stopping" for line in logged)


def test_a_second_signal_ends_all_at_once(repository: Path) -> None:
    with process(*flags(repository, "--drain-seconds", "600")) as (running, logged):
        started(running)
        workers = children(running.pid)
        running.send_signal(signal.SIGTERM)
        assert eventually(lambda: any('"stopping"' in line for line in logged))
        assert running.poll() is None and len(children(running.pid)) == 2
        time.sleep(1.5)  # within a second it would be the same request
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=30) != 0
        assert eventually(lambda: not [pid for pid in workers if alive(pid)])


def test_workers_end_with_the_process_that_started_them(repository: Path) -> None:
    with process(*flags(repository)) as (running, _):
        started(running)
        workers = children(running.pid)
        assert len(workers) == 2
        running.kill()
        assert eventually(lambda: not [pid for pid in workers if alive(pid)], 30)


def test_a_start_that_fails_says_why_once_and_leaves_no_process(repository: Path) -> None:
    with serving(repository) as alone, process(*flags(repository, port=alone.server.port)) as (running, logged):
        assert running.wait(timeout=60) == 1
        assert "cannot listen on 127" in logged[-1]
    with process(*flags(repository, "--provider", "cuda")) as (running, logged):
        assert running.wait(timeout=60) == 2
    assert len(logged) == 1 and "give --provider cpu" in logged[0]
