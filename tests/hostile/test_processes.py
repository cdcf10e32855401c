"""Processes that are killed or stand still, and callers who do not read: no call hangs, and nothing is left behind."""

import io
import os
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from PIL import Image

import limelight
from limelight.v1 import attention_pb2, model_pb2, service_pb2, service_pb2_grpc, values_pb2
from limelight_bundle.samples import Sample
from limelight_bundle.values import TensorValue
from limelight_bundle.wire import to_tensor
from tests.hostile.capped import LOCAL, Capped, capped, good, health_of
from tests.hostile.wire import SERVICE, Wire, prefix
from tests.kit import bundles
from tests.kit.bundles import parts
from tests.kit.processes import ROOT, alive, children, engines, frontends, process, started
from tests.kit.serving import attend, eventually, generate, predict, refusal, text

MEBIBYTE = 2**20
NUMBERS = 75_000  # of 8 bytes: 600 kB a request
WORDS = " ".join(["a"] * 200)  # whose maps take 640 kB, which processes share
HANGS = 120.0  # seconds after which a call counts as one that hangs


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("repository")
    bundles.tiny(folder)
    bundles.tiny(folder, "wide", max_tokens=256)
    bundles.echo(folder)
    bundles.echo(folder, "endless", max_new_tokens=100_000, endless=True)
    numbers(folder)
    return folder


def numbers(repository: Path) -> None:
    """Write a model of up to `NUMBERS` numbers, which it adds up."""
    graph = parts.graph(
        """
agraph (int64[B, N] ids) => (float[B, 1] logits)
{
  floats = Cast <to = 1> (ids)
  logits = ReduceMean (floats, axis1)
}
"""
    )
    ids = model_pb2.TensorDescription(
        name="ids",
        data_type=values_pb2.DATA_TYPE_INT64,
        dimensions=[model_pb2.Dimension(name="number", maximum=NUMBERS)],
        minimum=0,
        maximum=parts.VOCABULARY - 1,
    )
    taken = model_pb2.InputDescription(name="ids", kind=model_pb2.INPUT_KIND_TENSOR, tensors=[ids])
    bundle = parts.new_bundle("numbers", model_pb2.TASK_REGRESSION, taken)
    bundle.description.outputs.append(parts.output("logits", model_pb2.Dimension(name="class", size=1)))
    bundle.graphs.append(parts.onnx_graph("main", "model.onnx", ["ids"], ["logits"]))
    drawn = np.array([4, 5, 6])
    sample = Sample({"ids": drawn}, {"logits": np.array([5], np.float32)}, {})
    parts.write(repository, bundle, {"model.onnx": graph}, [{"ids": TensorValue(drawn)}], [sample], 1)


def large() -> service_pb2.PredictRequest:
    """A request of 600 kB."""
    values = to_tensor(np.full(NUMBERS, 7, np.int64))
    return predict("numbers", values_pb2.Instance(inputs={"ids": values_pb2.Value(tensor=values)}))


def stream_of(model: str, words: str) -> service_pb2.AttendStreamRequest:
    return service_pb2.AttendStreamRequest(model=values_pb2.Model(name=model), instances=[text(words)])


class Callers:
    """Callers of every kind, each on a connection of its own, who go on whatever they are told.

    codes: how calls ended. hung: those that had not ended in `HANGS` seconds. told: those that were UNAVAILABLE by an
    answer of the server with a time to come back.
    """

    def __init__(self) -> None:
        self.codes: Counter[str] = Counter()
        self.hung = self.told = 0
        self._over = threading.Event()

    def call(self, make: Callable[[Any], Any], address: str) -> None:
        """Call until it is over."""
        while not self._over.is_set():
            with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
                stub = service_pb2_grpc.AttentionServiceStub(channel)
                while not self._over.is_set():
                    try:
                        answer = make(stub)
                        if not hasattr(answer, "DESCRIPTOR"):
                            list(answer)
                        self.codes["OK"] += 1
                        self._over.wait(0.05)  # some are always under way, and what starts gets a core
                    except grpc.RpcError as error:
                        self._failed(error)
                        break

    def end(self) -> None:
        self._over.set()

    def _failed(self, error: Any) -> None:
        self.codes[error.code().name] += 1
        self.hung += error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        if error.code() is grpc.StatusCode.UNAVAILABLE and "grpc-status-details-bin" in dict(error.trailing_metadata()):
            self.told += refusal(error).retry is not None
        self._over.wait(0.1)


@contextmanager
def calling(address: str) -> Iterator[Callers]:
    callers = Callers()
    kinds: list[Callable[[Any], Any]] = [
        lambda stub: stub.Predict(predict("tiny", text("the cat"), text("a dog")), timeout=HANGS),
        lambda stub: stub.Attend(attend("wide", text(WORDS)), timeout=HANGS),
        lambda stub: stub.AttendStream(stream_of("wide", WORDS), timeout=HANGS),
        lambda stub: stub.Generate(generate("echo", text("the cat sat")), timeout=HANGS),
        lambda stub: stub.Predict(large(), timeout=HANGS),
    ]
    with ThreadPoolExecutor(2 * len(kinds)) as pool:
        done = [pool.submit(callers.call, each, address) for each in kinds * 2]
        try:
            yield callers
        finally:
            callers.end()
    for each in done:
        each.result()


def opened(pid: int) -> list[str]:
    """Files that a process has open or mapped, by name, without those that it closes meanwhile."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(os.readlink(each))
        except OSError:
            continue
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return found + [line.split(maxsplit=5)[5] for line in maps if len(line.split(maxsplit=5)) == 6]


def descriptors(pids: list[int]) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)


def test_processes_that_are_killed_under_load_are_replaced_and_nothing_hangs_or_is_left(repository: Path) -> None:
    flags = ("--repository", str(repository), *LOCAL, "--frontends", "2", "--log-level", "error")
    with process(*flags) as (running, logged):
        address = started(running)

        def whole() -> bool:
            return (len(engines(running.pid)), len(frontends(running.pid))) == (1, 2)

        with grpc.insecure_channel(address) as channel:
            stub = service_pb2_grpc.AttentionServiceStub(channel)
            assert good(stub)
            supervisor = descriptors([running.pid])
            ended = []
            with calling(address) as callers:
                for find in (engines, frontends, frontends, engines):
                    answered = callers.codes["OK"]
                    assert eventually(lambda: callers.codes["OK"] > answered + 20, HANGS)  # noqa: B023
                    ended.append(find(running.pid)[-1])
                    os.kill(ended[-1], signal.SIGKILL)
                    assert eventually(lambda: not alive(ended[-1]) and whole(), HANGS)
                    assert eventually(lambda: good(stub), HANGS)
                assert not [name for pid in children(running.pid) for name in opened(pid) if "/dev/shm" in name]
            assert not callers.hung and callers.told
            assert set(callers.codes) <= {"OK", "UNAVAILABLE", "CANCELLED"}, callers.codes
            assert eventually(lambda: descriptors([running.pid]) <= supervisor, 30)
            held = [
                name
                for pid in (running.pid, *children(running.pid))
                for name in opened(pid)
                if "memfd:limelight" in name
            ]
            assert not held
        others = [*children(running.pid), *children(running.pid, "limelight_service.checking")]
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0
        assert eventually(lambda: not any(map(alive, (*others, *ended))))
    assert len([line for line in logged if "another takes its place" in line]) == len(ended)


def test_each_process_has_only_the_libraries_of_its_role(tmp_path: Path) -> None:
    for name in ("digits", "slips"):
        shutil.copytree(ROOT / "deploy" / "demo" / name, tmp_path / name)
    with process("--repository", str(tmp_path), *LOCAL, "--frontends", "1") as (running, _):
        with limelight.Client(started(running)) as client:
            file = io.BytesIO()
            Image.new("L", (32, 32)).save(file, "PNG")
            assert client.attend("digits", {"image": file.getvalue()}).maps
            (code,) = (each.name for each in client.model("slips").inputs)
            assert client.predict("slips", {code: "def twice(number):\n    return 2 * number\n"})

        def libraries(pid: int) -> set[str]:
            known = ("onnxruntime", "grpc/_cython", "tokenizers", "PIL")
            return {name for name in known for path in opened(pid) if f"/{name}/" in path}

        assert libraries(running.pid) == set()
        assert [libraries(pid) for pid in engines(running.pid)] == [{"onnxruntime"}]
        assert [libraries(pid) for pid in frontends(running.pid)] == [{"grpc/_cython", "tokenizers", "PIL"}]


def test_all_processes_end_with_their_supervisor_whatever_they_do(repository: Path) -> None:
    flags = ("--repository", str(repository), *LOCAL, "--frontends", "2")
    with process(*flags) as (running, _):
        address = started(running)
        with calling(address) as callers:
            assert eventually(lambda: callers.codes["OK"] > 50, HANGS)
            others = [*children(running.pid), *children(running.pid, "limelight_service.checking")]
            running.kill()
            assert eventually(lambda: not any(map(alive, others)), 60)
        assert not callers.hung


def test_an_engine_that_stands_still_costs_a_frontend_no_more_memory_than_the_limit(repository: Path) -> None:
    arriving = 32 * MEBIBYTE
    limits = {"max_arriving_bytes": arriving, "max_request_bytes": MEBIBYTE}
    with capped(repository, frontends=1, limits=limits) as server:
        request, (engine,) = large(), engines(server.process.pid)
        assert server.stub.Predict(request, timeout=HANGS).predictions
        before = server.resident()
        server.forget_peak()
        with health_of(server.address) as health, ThreadPoolExecutor(8) as pool:
            os.kill(engine, signal.SIGSTOP)
            try:
                calls = list(pool.map(lambda _: server.stub.Predict.future(request, timeout=HANGS), range(400)))
                time.sleep(3.0)
                peak = server.peak()
            finally:
                os.kill(engine, signal.SIGCONT)
            codes = Counter(each.code() for each in calls)
            assert eventually(lambda: good(server.stub))
        assert peak - before < 4 * arriving, (peak - before) / MEBIBYTE  # not the 240 MB that were sent
        assert codes[grpc.StatusCode.OK] > 0
        assert set(codes) <= {
            grpc.StatusCode.OK,
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            grpc.StatusCode.UNAVAILABLE,
        }, codes
        assert len(health.seconds) > 20
        assert server.stub.Predict(request, timeout=HANGS).predictions


ENDLESS = service_pb2.GenerateRequest(
    model=values_pb2.Model(name="endless"),
    instance=text("the cat"),
    attention=attention_pb2.AttentionOptions(),
    generation=service_pb2.GenerationOptions(max_new_tokens=100_000),
)


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("Generate", ENDLESS),
        ("AttendStream", stream_of("wide", WORDS)),
    ],
    ids=["generate", "attend-stream"],
)
def test_streams_that_nobody_reads_take_bounded_memory_and_others_are_served(
    repository: Path, frontends: int, method: str, request_: Any
) -> None:
    data = request_.SerializeToString()
    with capped(repository, frontends=frontends, limits={"chunk_bytes": 4096}) as server:
        assert good(server.stub)
        before = server.resident()
        server.forget_peak()
        wires = [Wire(server.address, windows=0) for _ in range(8)]
        for wire in wires:
            for _ in range(4):
                assert wire.put_all(wire.begin(f"{SERVICE}{method}"), prefix(len(data)) + data, end=True)
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            assert good(server.stub)
            for wire in wires:
                wire.pump(0.0)
        assert not any(wire.gone for wire in wires)
        assert server.peak() - before < 128 * MEBIBYTE, (server.peak() - before) / MEBIBYTE
        for wire in wires:
            wire.close()
        assert eventually(lambda: good(server.stub) and used(server) < 0.5)  # nothing computes for callers who are gone


def used(server: Capped) -> float:
    """Seconds of processors that a server takes in one second."""
    before = server.cpu_seconds()
    time.sleep(1.0)
    return server.cpu_seconds() - before
