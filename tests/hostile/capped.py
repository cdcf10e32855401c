"""Servers to attack: `limelight serve` in processes of its own, under a memory cap or not, and somebody who asks for
their health all the while.
"""

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from limelight.v1 import service_pb2_grpc
from tests.kit.processes import children, frontends, process, scrape, started
from tests.kit.serving import free_port, predict, text

CAP = 3 * 2**30
LOCAL = ("--port", "0", "--metrics-port", "0", "--provider", "cpu")
_SERVING = health_pb2.HealthCheckResponse.SERVING
_UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_PAUSE = 0.01


@dataclass(frozen=True)
class Capped:
    """A server in one process of its own, or in several.

    process: the first. stub: of a client without limits of its own. logged: its log lines so far.
    """

    process: subprocess.Popen[str]
    address: str
    metrics_port: int
    stub: Any
    logged: list[str]

    @property
    def alive(self) -> bool:
        """True while the first process runs."""
        return self.process.poll() is None

    @property
    def pids(self) -> list[int]:
        """The first process, and the frontends and engines that it started."""
        return [self.process.pid, *children(self.process.pid)]

    @property
    def listening(self) -> int:
        """The process that callers are connected to: the first one, or its frontend."""
        return next(iter(frontends(self.process.pid)), self.process.pid)

    def resident(self) -> int:
        """Bytes of memory that its processes have now."""
        return self._status("VmRSS")

    def peak(self) -> int:
        """Bytes that its processes have had at most, each since it started or since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Begin anew to watch for the most memory."""
        for pid in self.pids:
            Path(f"/proc/{pid}/clear_refs").write_text("5")

    def cpu_seconds(self) -> float:
        """Seconds of processors that its processes have had."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def scrape(self) -> dict[str, float]:
        """Read its metrics."""
        return scrape(self.metrics_port)

    def _status(self, name: str) -> int:
        return sum(_status(pid, name) for pid in self.pids)


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":"))


@contextmanager
def capped(
    repository: Path, *flags: str, frontends: int = 0, cap: int = CAP, limits: Mapping[str, Any] | None = None
) -> Iterator[Capped]:
    """Serve a repository in processes that each get no more than so many bytes of memory of their own.

    Files that are mapped, and addresses that are only reserved, do not count: runtimes have many gigabytes of both.
    limits: settings that have no flag.
    """
    metrics_port = free_port()
    common = ("--repository", str(repository), "--port", "0", "--metrics-port", str(metrics_port), "--provider", "cpu")
    with process(*common, "--frontends", str(frontends), *flags, limits=limits) as (running, logged):
        resource.prlimit(running.pid, resource.RLIMIT_DATA, (cap, cap))
        address = started(running)
        with grpc.insecure_channel(address, _UNLIMITED) as channel:
            yield Capped(running, address, metrics_port, service_pb2_grpc.AttentionServiceStub(channel), logged)


@contextmanager
def answering(repository: Path, *flags: object, told: bool = False, **how: Any) -> Iterator[Capped]:
    """Serve a repository without a cap, and stop in order when the block ends.

    flags: beside those of a server of this machine. told: the block itself has it stop. how: as `process` takes it.
    """
    with process("--repository", str(repository), *LOCAL, *map(str, flags), **how) as (running, logged):
        address = started(running)
        with grpc.insecure_channel(address) as channel:
            yield Capped(running, address, 0, service_pb2_grpc.AttentionServiceStub(channel), logged)
        if not told:
            running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 0


def good(stub: Any) -> bool:
    """Call as an honest client does; False where that is refused for what others do."""
    try:
        return bool(stub.Predict(predict("tiny", text("the cat")), timeout=60, wait_for_ready=True).predictions)
    except grpc.RpcError as error:
        refused = (grpc.StatusCode.CANCELLED, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
        assert error.code() in refused, error  # type: ignore[attr-defined]
        return False


@dataclass
class Health:
    """Findings of a caller of the health. seconds: that answers took. failures: of calls without a good answer."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """The seconds that so large a share of the answers took at most."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextmanager
def health_of(address: str, *, patience: float = 60.0) -> Iterator[Health]:
    """Ask for a server's health a hundred times a second, over a connection of its own, for the length of a block.

    patience: the seconds after which a call counts as failed.
    """
    seen, over = Health(), threading.Event()
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(address, options) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check

        def ask() -> None:
            while not over.wait(_PAUSE):
                began = time.monotonic()
                try:
                    answer = check(health_pb2.HealthCheckRequest(), timeout=patience, wait_for_ready=True)
                except grpc.RpcError as error:
                    seen.failures.append(f"{error.code().name}: {error.details()}")
                else:
                    seen.seconds.append(time.monotonic() - began)
                    if answer.status != _SERVING:
                        seen.failures.append("not serving")

        grpc.channel_ready_future(channel).result(patience)
        asking = threading.Thread(target=ask, name="health", daemon=True)
        asking.start()
        try:
            yield seen
        finally:
            over.set()
            asking.join(2 * patience)
