"""Servers that stop under load, seen from a client that retries: `python -m hostile.stops`.

Several servers behind one client that knows them all, takes turns between them, and tries again elsewhere what was
UNAVAILABLE: gRPC's own round_robin and retryPolicy. One server at a time is stopped by SIGTERM under load and started
again on its port, a hundred times. About six minutes.
"""

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from benchmarks.demo_calls import DEMO, GENERATE, KINDS, PREDICT
from benchmarks.process import free_port, healthy
from benchmarks.records import ROOT
from limelight.v1 import service_pb2, service_pb2_grpc

_START_SECONDS, _STOP_SECONDS = 120.0, 120.0
_CONFIGURATION = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [{}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.05s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}
_OPTIONS = (
    ("grpc.service_config", json.dumps(_CONFIGURATION)),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
)


@dataclass(frozen=True)
class Work:
    """Calls of the whole time: the message of a call that answers once, and of one that answers with a stream.

    pause: seconds that a caller waits between two calls.
    """

    predict: bytes
    generate: bytes
    pause: float = 0.0


@dataclass
class Outcome:
    """Findings of callers and servers. failed: by method, status and message. seconds: from each signal to the end."""

    answered: Counter[str] = field(default_factory=Counter)
    failed: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    slowest: float = 0.0


class _Server:
    """A server on a port of its own, started as often as wanted."""

    def __init__(self, repository: Path, flags: Sequence[str]) -> None:
        self.target = f"127.0.0.1:{free_port()}"
        self._command = [sys.executable, "-m", "limelight.cli", "serve", "--repository", str(repository)]
        self._command += ["--port", self.target.rpartition(":")[2], "--metrics-port", "0", "--log-level", "warning"]
        self._command += ["--provider", "cpu", *flags]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it has all of its models."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, cwd=ROOT)
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            with grpc.insecure_channel(self.target) as channel:
                try:
                    if _loaded(channel):
                        return
                except grpc.RpcError:
                    pass
            time.sleep(0.05)
        raise RuntimeError(f"a server on {self.target} is not ready")

    def stop(self) -> tuple[float, int]:
        """Stop it; gives how long that took, and its status."""
        assert self._process is not None
        before = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        status = self._process.wait(_STOP_SECONDS)
        return time.monotonic() - before, status

    def kill(self) -> None:
        """End it if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def _loaded(channel: grpc.Channel) -> bool:
    stub = service_pb2_grpc.AttentionServiceStub(channel)
    models = stub.ListModels(service_pb2.ListModelsRequest(), timeout=5).models
    return healthy(channel) and not any(each.state == service_pb2.MODEL_STATE_LOADING for each in models)


async def measure(
    repository: Path,
    work: Work,
    *,
    stops: int,
    flags: Sequence[str] = (),
    servers: int = 3,
    callers: int = 8,
    streams: int = 2,
    told: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """Stop and start servers by turns under load. told: is called after each stop."""
    outcome, ended = Outcome(), asyncio.Event()
    several = [_Server(repository, flags) for _ in range(servers)]
    try:
        await asyncio.gather(*(asyncio.to_thread(each.start) for each in several))
        target = "ipv4:" + ",".join(each.target for each in several)
        async with grpc.aio.insecure_channel(target, options=_OPTIONS) as channel:
            calls = [_predict(channel, work, outcome, ended) for _ in range(callers)]
            calls += [_generate(channel, work, outcome, ended) for _ in range(streams)]
            load = asyncio.gather(*calls)
            for number in range(stops):
                server = several[number % servers]
                await asyncio.sleep(0.5)  # the client is back at the server that was stopped last
                seconds, status = await asyncio.to_thread(server.stop)
                outcome.seconds.append(seconds)
                outcome.statuses[status] += 1
                await asyncio.to_thread(server.start)
                told(outcome)
            ended.set()
            await load
    finally:
        for each in several:
            each.kill()
    return outcome


async def _predict(channel: grpc.aio.Channel, work: Work, outcome: Outcome, ended: asyncio.Event) -> None:
    call = channel.unary_unary(PREDICT)
    while not ended.is_set():
        before = time.monotonic()
        try:
            await call(work.predict, timeout=60)
            outcome.answered["Predict"] += 1
        except grpc.RpcError as error:
            outcome.failed["Predict", error.code().name, error.details()] += 1
        outcome.slowest = max(outcome.slowest, time.monotonic() - before)
        await asyncio.sleep(work.pause)


async def _generate(channel: grpc.aio.Channel, work: Work, outcome: Outcome, ended: asyncio.Event) -> None:
    call = channel.unary_stream(GENERATE)
    while not ended.is_set():
        try:
            async for _ in call(work.generate, timeout=60):
                pass
            outcome.answered["Generate"] += 1
        except grpc.RpcError as error:
            outcome.failed["Generate", error.code().name, error.details()] += 1
        await asyncio.sleep(work.pause)


def described(outcome: Outcome) -> str:
    """Write an outcome in lines."""
    answered = ", ".join(f"{count} {name}" for name, count in sorted(outcome.answered.items()))
    lines = [
        f"{len(outcome.seconds)} stops, exit statuses {dict(outcome.statuses)}",
        f"from signal to end: median {statistics.median(outcome.seconds):.2f} s, most {max(outcome.seconds):.2f} s",
        f"answered: {answered}; the slowest Predict took {outcome.slowest:.2f} s",
        f"failed: {outcome.failed.total()}",
    ]
    return "\n".join([*lines, *(f"  {count} × {' '.join(what)}" for what, count in outcome.failed.most_common())])


def demo_work() -> Work:
    """Ask the demo models."""
    return Work(predict=KINDS["documents"][1](1), generate=KINDS["generations"][1](1))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stops", type=int, default=100)
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--callers", type=int, default=8, help="of Predict, each with one call at a time")
    parser.add_argument("--streams", type=int, default=2, help="of Generate, each with one at a time")
    parser.add_argument("--drain-seconds", type=float, default=0.0)
    options = parser.parse_args()

    def told(outcome: Outcome) -> None:
        print(f"\r{len(outcome.seconds)} stops, {outcome.failed.total()} failed", end="", flush=True, file=sys.stderr)

    outcome = asyncio.run(
        measure(
            DEMO,
            demo_work(),
            stops=options.stops,
            flags=("--drain-seconds", str(options.drain_seconds)),
            servers=options.servers,
            callers=options.callers,
            streams=options.streams,
            told=told,
        )
    )
    print("\n" + described(outcome))


if __name__ == "__main__":
    main()
