"""A server in processes of its own, with their ids."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from benchmarks.processor import family
from benchmarks.records import ROOT

_START_SECONDS = 120.0
_STOP_SECONDS = 30.0


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def set_aside(count: int) -> list[int]:
    """Keep this process and its servers off the last `count` cores; give these cores."""
    every = sorted(os.sched_getaffinity(0))
    if not 0 <= count < len(every):
        raise ValueError(f"{count} of {len(every)} cores cannot be set aside")
    os.sched_setaffinity(0, every[: len(every) - count])
    return every[len(every) - count :]


def free_port() -> int:
    """Give a port that is free now."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


class Process:
    """The processes of a server, within a block. ready: polled with a channel until it is true."""

    def __init__(
        self,
        command: Sequence[str],
        target: str,
        ready: Callable[[grpc.Channel], bool],
        *,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        self._command, self._ready, self._log = list(command), ready, log
        self._environment = {**os.environ, **(environment or {})}
        self.target = target

    def __enter__(self) -> Self:
        _unwind_when_told_to_end()
        out = self._log.open("w") if self._log else subprocess.DEVNULL
        self._process = subprocess.Popen(
            self._command, stdout=out, stderr=subprocess.STDOUT, env=self._environment, cwd=ROOT, start_new_session=True
        )
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def pids(self) -> list[int]:
        """The ids of all processes of the server."""
        return family(self._process.pid)

    def signal(self, number: int) -> None:
        """Send the first process a signal."""
        self._process.send_signal(number)

    @property
    def status(self) -> int | None:
        """The exit status of the first process; None while it runs."""
        return self._process.poll()

    def _stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def _wait(self) -> None:
        end = time.monotonic() + _START_SECONDS
        with grpc.insecure_channel(self.target) as channel:
            while time.monotonic() < end and self._process.poll() is None:
                try:
                    if self._ready(channel):
                        return
                except grpc.RpcError:
                    pass
                time.sleep(0.05)
        said = self._log.read_text(errors="replace")[-20000:] if self._log else ""
        raise RuntimeError(f"{self._command[0]} is not ready\n{said}")


def _unwind_when_told_to_end() -> None:
    """Make SIGTERM end the servers of this process first, as Ctrl-C does."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


class ServerProcess(Process):
    """`limelight serve` on a free port."""

    def __init__(self, repository: Path, *flags: str, log: Path | None = None) -> None:
        port = free_port()
        command = [sys.executable, "-m", "limelight.cli", "serve", "--repository", str(repository)]
        command += ["--port", str(port), "--metrics-port", "0", "--log-level", "warning", *flags]
        super().__init__(command, f"127.0.0.1:{port}", healthy, log=log)


def healthy(channel: grpc.Channel) -> bool:
    """Tell whether grpc.health.v1 reports the server as serving."""
    return bool(channel.unary_unary(HEALTH)(b"", timeout=10) == SERVING)


HEALTH = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"  # HealthCheckResponse{status: SERVING}
