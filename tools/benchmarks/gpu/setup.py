"""Shared setup of the stages: the provider, the models, servers, and loads from several processes."""

import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc

import limelight
from benchmarks.demo_calls import LIST
from benchmarks.gpu.models import ENCODERS
from benchmarks.load import Plan, run_clean
from benchmarks.process import Process, ServerProcess, cores
from limelight.v1 import service_pb2

# One generator process of several; each sends some thousands of calls a second.
_CALLERS_A_PROCESS = 16
_LARGEST = str(256 * 2**20)  # bytes of a request, and of an answer


@dataclass(frozen=True)
class Setup:
    """A run of stages.

    Attributes:
        provider: cuda, or cpu, which proves the stages alone.
        models: the folder of `benchmarks.gpu.models`.
        seconds: of each measurement.
        out: the folder for results and logs.
    """

    provider: str
    models: Path
    seconds: float
    out: Path

    @property
    def encoders(self) -> Path:
        """The repository of models that answer in one pass, in float32."""
        return self.models / ENCODERS

    def server(self, name: str, repository: Path, *flags: str, provider: str = "") -> ServerProcess:
        """Give a server, not started, with a log below `out`."""
        limits = ("--max-request-bytes", _LARGEST, "--max-response-bytes", _LARGEST)
        chosen = ("--provider", provider or self.provider)
        return _Settled(repository, *chosen, *limits, *flags, log=self.out / f"{name}.log")


class _Settled(ServerProcess):
    """A server that is ready when no model is loading: one that refuses all of its models is measured too."""

    def __init__(self, repository: Path, *flags: str, log: Path) -> None:
        super().__init__(repository, *flags, log=log)
        self._ready = self._is_settled

    def _is_settled(self, channel: grpc.Channel) -> bool:
        listed = channel.unary_unary(LIST)(b"", timeout=1)
        states = [each.state for each in service_pb2.ListModelsResponse.FromString(listed).models]
        return bool(states) and service_pb2.MODEL_STATE_LOADING not in states


@dataclass(frozen=True)
class Load:
    """A closed loop and its outcome. rate: answers a second; times in ms; cpu: ms of the server a call."""

    rate: float
    p50: float
    p99: float
    cpu: float


def start(stack: ExitStack, servers: Sequence[Process]) -> None:
    """Start servers at the same time; each must be ready."""
    with ThreadPoolExecutor(len(servers)) as pool:
        for future in [pool.submit(stack.enter_context, each) for each in servers]:
            future.result()


def refusal(server: Process, model: str) -> str:
    """Tell why a server does not serve a model; empty where it does."""
    with limelight.Client(server.target) as client:
        status = next(each for each in client.models() if each.name == model)
    return "" if status.state == "ready" else f"{status.state}: {status.reason}"


def load(server: Process, method: str, messages: Sequence[bytes], callers: int, seconds: float) -> Load:
    """Keep so many calls under way, all of which must be answered. Raises: LoadError where one is not."""
    plan = Plan(server.target, method, messages, seconds, concurrency=callers, pids=server.pids)
    outcome = run_clean(plan, processes=max(1, min(callers // _CALLERS_A_PROCESS, cores() // 4)))
    return Load(outcome.rate, outcome.milliseconds(0.5), outcome.milliseconds(0.99), outcome.cpu)


def card() -> str:
    """Name the GPU as its driver does; empty where there is none."""
    return _query("name")


def used_bytes() -> int:
    """Bytes of the GPU's memory that are taken, by any program; 0 without a GPU."""
    return int(_query("memory.used") or 0) * 2**20


def _query(field: str) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, f"--query-gpu={field}", "--format=csv,noheader,nounits"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = result.stdout.strip().splitlines()
    return lines[0] if result.returncode == 0 and lines else ""
