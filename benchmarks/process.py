"""A server in a process of its own, and what it costs."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

_START_SECONDS = 60.0


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


class ServerProcess:
    """`limelight serve` on a free port, from entering to leaving."""

    def __init__(self, repository: Path, *flags: str) -> None:
        self._command = [sys.executable, "-m", "limelight.cli", "serve", "--repository", str(repository)]
        self._command += ["--port", "0", "--metrics-port", "0", "--log-level", "warning", *flags]
        self.target = ""

    def __enter__(self) -> "ServerProcess":
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if found := re.search(r"127\.0\.0\.1:(\d+)", line):
                self.target = f"127.0.0.1:{found.group(1)}"
                break
        else:
            raise RuntimeError("the server did not start")
        self._wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(timeout=30)

    def cpu_seconds(self) -> float:
        """Processor time that the server has used, of all its threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _wait(self) -> None:
        end = time.monotonic() + _START_SECONDS
        with grpc.insecure_channel(self.target) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            while time.monotonic() < end:
                try:
                    if (
                        stub.Check(health_pb2.HealthCheckRequest(), timeout=1).status
                        == health_pb2.HealthCheckResponse.SERVING
                    ):
                        return
                except grpc.RpcError:
                    pass
                time.sleep(0.05)
        raise RuntimeError("the server is not ready")
