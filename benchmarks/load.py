"""Closed-loop load with requests that are serialised already and answers that are never parsed."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

import grpc
import numpy as np

from benchmarks.process import ServerProcess

_SERVICE = "limelight.v1.AttentionService"


@dataclass(frozen=True)
class Load:
    """What came of it: calls a second, latency in milliseconds, the server's processor seconds a call."""

    rate: float
    p50: float
    p99: float
    server_cpu: float


def measure(server: ServerProcess, method: str, requests: Sequence[bytes], *, concurrency: int, seconds: float) -> Load:
    """Keep `concurrency` calls under way for so long, after a tenth of that to warm up."""
    asyncio.run(_load(server.target, method, requests, concurrency, seconds / 10))
    before = server.cpu_seconds()
    begin = time.monotonic()
    latencies = asyncio.run(_load(server.target, method, requests, concurrency, seconds))
    wall = time.monotonic() - begin
    p50, p99 = np.percentile(latencies, [50, 99]) * 1e3
    return Load(len(latencies) / wall, float(p50), float(p99), (server.cpu_seconds() - before) / len(latencies))


async def _load(target: str, method: str, requests: Sequence[bytes], concurrency: int, seconds: float) -> list[float]:
    options = [("grpc.max_receive_message_length", -1)]
    latencies: list[float] = []
    stream = itertools.cycle(requests)
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        call = channel.unary_unary(f"/{_SERVICE}/{method}")
        end = time.monotonic() + seconds

        async def caller() -> None:
            while (begin := time.monotonic()) < end:
                await call(next(stream))
                latencies.append(time.monotonic() - begin)

        await asyncio.gather(*(caller() for _ in range(concurrency)))
    return latencies
