"""`limelight bench`: closed-loop load. Each caller sends its next request when its last is answered."""

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
from limelight.cli.connection import Connection, connected
from limelight.cli.inputs import read_instance
from limelight.errors import Error, Unavailable
from limelight.v1 import service_pb2


class Method(StrEnum):
    """What is measured."""

    predict = "predict"
    attend = "attend"


MethodName = Annotated[Method, typer.Option("--method", help="The call to make.")]
Concurrency = Annotated[int, typer.Option("--concurrency", "-c", min=1, max=4096, help="Callers at the same time.")]
Seconds = Annotated[float | None, typer.Option("--seconds", min=0.1, help="How long to measure. [default: 5]")]
Requests = Annotated[int | None, typer.Option("--requests", "-n", min=1, help="How many requests to send, instead.")]
Rows = Annotated[int, typer.Option("--rows", min=1, help="Instances in a request.")]
Attempts = Annotated[
    int,
    typer.Option(
        "--attempts",
        min=1,
        max=5,
        help="Send a call that no server took up to so often; only its end counts.",
    ),
]
Warmup = Annotated[int, typer.Option("--warmup", min=0, help="Requests sent before measuring.")]


@dataclass(frozen=True)
class Measured:
    """What a run found. Latencies are of answered requests; failed ones count as errors."""

    model: str
    method: str
    concurrency: int
    rows: int
    seconds: float
    requests: int
    errors: int
    codes: dict[str, int]
    """How many calls ended with each status code, OK first."""
    attempts: int
    """How often a call is sent at most: 1 where nothing is sent again."""
    first_error: str | None
    requests_per_second: float
    rows_per_second: float
    latency_ms: dict[str, float]
    """mean, p50, p90, p99 and max."""
    response_bytes: int
    """Size of an answer."""


@connected
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
    """Measure throughput and latency in a closed loop. Without an input, the model's first example is sent.

    Every call counts by the status code that it ended with, and none is sent again unless --attempts says so.
    """
    if seconds is not None and number is not None:
        raise CommandError("either --seconds or --requests", status=2)
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
    """One measurement to be made: for `seconds`, or until `number` requests are sent."""

    method: str
    request: Any
    concurrency: int
    seconds: float | None
    number: int | None
    warmup: int
    attempts: int = 1

    async def measure(self, connection: Connection) -> Measured:
        """Warm up, load the server, and count. Raises: Error where a warming request fails."""
        latencies: list[float] = []
        failures: list[str] = []
        codes: Counter[str] = Counter(OK=0)
        size = 0
        rpc = self.method.capitalize()
        # gRPC sends calls that a server did not look at again even where there is one attempt: that would hide a server
        # which refuses them.
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
                        # A server that refuses at once must not be asked as fast as this machine can.
                        await asyncio.sleep(min(error.retry_after or 0.01, 1.0))
                        continue
                    latencies.append(time.perf_counter() - start)
                    codes["OK"] += 1
                    size = size or answer.ByteSize()

            await asyncio.gather(*(caller() for _ in range(self.concurrency)))
            took = time.perf_counter() - begin
        rows = len(self.request.instances)
        return Measured(
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


def _print(measured: Measured) -> None:
    rows = f" of {measured.rows} rows ({measured.rows_per_second:.1f} rows/s)" if measured.rows > 1 else ""
    print(f"{measured.method} {measured.model}, {measured.concurrency} callers, {measured.seconds:.1f} s")
    print(f"{measured.requests_per_second:.1f} requests/s{rows}, answers of {measured.response_bytes:,} bytes")
    again = "nothing was sent again" if measured.attempts == 1 else f"up to {measured.attempts} attempts a call"
    print(f"{', '.join(f'{code} {count}' for code, count in measured.codes.items())} ({again})")
    if measured.latency_ms:
        print("latency " + ", ".join(f"{name} {value:.1f} ms" for name, value in measured.latency_ms.items()))
