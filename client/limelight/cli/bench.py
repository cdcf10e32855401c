"""`limelight bench`: closed-loop load. Each caller sends its next request after the previous answer."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
import typer

from limelight import requests
from limelight.aio import AsyncClient
from limelight.cli import CommandError, as_json, options
from limelight.cli.connection import Connection, with_connection_options
from limelight.cli.inputs import read_instance
from limelight.errors import Error, Unavailable
from limelight.v1 import service_pb2


class Method(StrEnum):
    """RPC to measure."""

    predict = "predict"
    attend = "attend"


MethodName = Annotated[Method, typer.Option("--method", help="RPC to measure.")]
Concurrency = Annotated[int, typer.Option("--concurrency", "-c", min=1, max=4096, help="Number of concurrent callers.")]
Seconds = Annotated[float | None, typer.Option("--seconds", min=0.1, help="Duration of the measurement. [default: 5]")]
Requests = Annotated[
    int | None, typer.Option("--requests", "-n", min=1, help="Number of requests, instead of --seconds.")
]
Rows = Annotated[int, typer.Option("--rows", min=1, help="Instances in each request.")]
Attempts = Annotated[
    int,
    typer.Option(
        "--attempts",
        min=1,
        max=5,
        help="Attempts of a call while no server answers; only the last counts.",
    ),
]
Warmup = Annotated[int, typer.Option("--warmup", min=0, help="Requests before the measurement.")]


@dataclass(frozen=True)
class Measurement:
    """Result of a run. Latencies are those of answered requests; failed requests count as errors."""

    model: str
    method: str
    concurrency: int
    rows: int
    seconds: float
    requests: int
    errors: int
    codes: dict[str, int]
    """Number of calls by status code, OK first."""
    attempts: int
    """Maximum number of attempts of a call; 1 means no retries."""
    first_error: str | None
    requests_per_second: float
    rows_per_second: float
    latency_ms: dict[str, float]
    """mean, p50, p90, p99 and max."""
    response_bytes: int
    """Size of an answer."""


@with_connection_options
def bench(
    connection: Connection,
    model: options.ModelName,
    values: options.Words = None,
    named: options.NamedInputs = None,
    image: options.ImageFile = None,
    example: options.Example = None,
    method: MethodName = Method.predict,
    concurrency: Concurrency = 4,
    seconds: Seconds = None,
    number: Requests = None,
    rows: Rows = 1,
    warmup: Warmup = 8,
    attempts: Attempts = 1,
    maps: options.Maps = None,
    layers: options.Layers = None,
    heads: options.Heads = None,
    top_k: options.TopK = 0,
    reduce: options.ReduceHeads = None,
    encoding: options.WireEncoding = options.Encoding.float32,
    as_document: options.Json = False,
    version: options.Version = 0,
) -> None:
    """Measure throughput and latency in a closed loop.

    Without an input, the model's first example is sent. Results count calls by status code. Calls are not retried
    unless --attempts is given.
    """
    if seconds is not None and number is not None:
        raise CommandError("give either --seconds or --requests", status=2)
    with connection.client() as client:
        description = client.model(model, version)
    if not (values or named or image) and example is None and description.examples:
        example = 0
    instance = read_instance(description, positional=values or (), named=named or (), image=image, example=example)
    request: Any
    if method is Method.predict:
        request = requests.predict_request(model, [instance] * rows, version=version)
    else:
        request = requests.attend_request(
            service_pb2.AttendRequest,
            model,
            [instance] * rows,
            version=version,
            maps=maps or (),
            layers=layers or (),
            heads=heads or (),
            top_k=top_k,
            reduce=reduce.value if reduce else None,
            encoding=encoding.value,
        )
    run = Run(method.value, request, concurrency, seconds if seconds or number else 5.0, number, warmup, attempts)
    try:
        measured = asyncio.run(run.measure(connection))
    except Unavailable as error:
        raise connection.unreachable(error) from error
    if as_document:
        as_json.write(as_json.plain(measured))
    else:
        _print(measured)
    if measured.errors:
        raise CommandError(
            f"{measured.errors} of {measured.requests} requests failed; the first: {measured.first_error}"
        )


@dataclass(frozen=True)
class Run:
    """A measurement: for `seconds`, or until `number` requests are sent."""

    method: str
    request: Any
    concurrency: int
    seconds: float | None
    number: int | None
    warmup: int
    attempts: int = 1

    async def measure(self, connection: Connection) -> Measurement:
        """Warm up, generate load, and measure. Raises Error if a warm-up request fails."""
        latencies: list[float] = []
        failures: list[str] = []
        codes: Counter[str] = Counter(OK=0)
        size = 0
        rpc = self.method.capitalize()
        # Even with one attempt, gRPC retries calls that the server did not process, which would hide refusals.
        options = (("grpc.enable_retries", int(self.attempts > 1)),)
        async with AsyncClient(
            connection.target,
            timeout=connection.timeout,
            attempts=self.attempts,
            options=options,
            **connection.security,
        ) as client:
            for _ in range(self.warmup):
                await client.call(rpc, self.request)
            begin = time.perf_counter()
            end = begin + self.seconds if self.seconds else None
            left = self.number

            async def caller() -> None:
                nonlocal left, size
                while (end is None or time.perf_counter() < end) and left != 0:
                    left = None if left is None else left - 1
                    start = time.perf_counter()
                    try:
                        answer = await client.call(rpc, self.request)
                    except Error as error:
                        failures.append(f"{error.code.name}: {error}")
                        codes[error.code.name] += 1
                        # Do not flood a server that refuses immediately.
                        await asyncio.sleep(min(error.retry_after or 0.01, 1.0))
                        continue
                    latencies.append(time.perf_counter() - start)
                    codes["OK"] += 1
                    size = size or answer.ByteSize()

            await asyncio.gather(*(caller() for _ in range(self.concurrency)))
            took = time.perf_counter() - begin
        rows = len(self.request.instances)
        return Measurement(
            model=self.request.model.name,
            method=self.method,
            concurrency=self.concurrency,
            rows=rows,
            seconds=took,
            requests=len(latencies) + len(failures),
            errors=len(failures),
            codes=dict(codes),
            attempts=self.attempts,
            first_error=failures[0] if failures else None,
            requests_per_second=len(latencies) / took,
            rows_per_second=rows * len(latencies) / took,
            latency_ms=_latencies(latencies),
            response_bytes=size,
        )


def _latencies(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    milliseconds = np.array(seconds) * 1000
    p50, p90, p99 = np.percentile(milliseconds, [50, 90, 99]).tolist()
    return {"mean": float(milliseconds.mean()), "p50": p50, "p90": p90, "p99": p99, "max": float(milliseconds.max())}


def _print(measured: Measurement) -> None:
    rows = f" of {measured.rows} rows ({measured.rows_per_second:.1f} rows/s)" if measured.rows > 1 else ""
    print(f"{measured.method} {measured.model}, {measured.concurrency} callers, {measured.seconds:.1f} s")
    print(f"{measured.requests_per_second:.1f} requests/s{rows}, answers of {measured.response_bytes:,} bytes")
    again = "no retries" if measured.attempts == 1 else f"up to {measured.attempts} attempts a call"
    print(f"{', '.join(f'{code} {count}' for code, count in measured.codes.items())} ({again})")
    if measured.latency_ms:
        print("latency " + ", ".join(f"{name} {value:.1f} ms" for name, value in measured.latency_ms.items()))
