"""`limelight bench`: load on a running server, in a closed loop, an open loop, or at rising rates."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import grpc
import typer

from limelight.base.commands import CommandError
from limelight.base.errors import Unavailable
from limelight.base.version import version as client_version
from limelight.cli import as_json, options
from limelight.cli.bench import compare, http, native, oip, page, progress
from limelight.cli.bench.lengths import read_lengths
from limelight.cli.bench.load import OK, Load, Recorder, Send, run
from limelight.cli.bench.protocols import Calls, Open, Protocol, Question, Wires
from limelight.cli.bench.ramp import find_knee
from limelight.cli.bench.report import Ramp, Report, Setup, outcome_of, print_report
from limelight.cli.connection import Connection, with_connection_options
from limelight.files import write_file
from limelight.records import json_types

_PROTOCOLS: Mapping[Protocol, Open] = {
    Protocol.limelight: native.opened,
    Protocol.oip: oip.opened,
    Protocol.http: http.opened,
}
_STANDARD_OUTPUT = Path("-")
_SECONDS = 5.0
# A call of a ramp that takes this many times the bound is as good as lost.
_PATIENCE = 10.0
_ALONE_SECONDS = 1.0

ModelOrCompare = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Name of the model; or: compare A.json B.json sets two reports side by side."),
]
ProtocolName = Annotated[
    Protocol,
    typer.Option(
        "--protocol",
        help="limelight.v1 over gRPC; http for its JSON, with the HTTP port as --target; or oip, the Open Inference "
        "Protocol of other servers.",
    ),
]
InputFile = Annotated[
    Path | None,
    typer.Option("--inputs", metavar="FILE", help="JSON lines, each an instance: a text, or {NAME: VALUE, …}."),
]
TextLengths = Annotated[
    str | None,
    typer.Option(
        "--lengths",
        metavar="WORDS",
        help="Lengths of texts in words: 32, 8:128 (uniform), 28~0.7 (log-normal: median, sigma).",
    ),
]
Callers = Annotated[
    int | None,
    typer.Option("--callers", "-c", min=1, max=4096, help="Closed loop of this many callers. [default: 4]"),
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate", min=0.01, max=100_000, help="Open loop: calls a second at random times; first rate of --ramp."
    ),
]
RampFlag = Annotated[bool, typer.Option("--ramp", help="Find the highest rate whose 99th percentile is within --p99.")]
Bound = Annotated[float | None, typer.Option("--p99", min=0.1, metavar="MS", help="Bound of --ramp in milliseconds.")]
Seconds = Annotated[
    float | None,
    typer.Option("--seconds", min=0.1, help="Duration of the run, or of each rate of --ramp. [default: 5]"),
]
Requests = Annotated[
    int | None, typer.Option("--requests", "-n", min=1, help="Number of requests, instead of --seconds.")
]
Rows = Annotated[int, typer.Option("--rows", min=1, help="Instances in each request.")]
Connections = Annotated[
    int, typer.Option("--connections", min=1, max=256, help="Connections, used in turn; at most one for each caller.")
]
Attempts = Annotated[
    int,
    typer.Option("--attempts", min=1, max=5, help="Attempts of a call while no server answers; only the last counts."),
]
Warmup = Annotated[int, typer.Option("--warmup", min=0, help="Requests before the measurement.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of arrival times and lengths.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON; - for standard output.")
]
HtmlFile = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write the report as a page with plots.")]


@with_connection_options
def bench(
    connection: Connection,
    model: ModelOrCompare,
    values: options.Words = None,
    named: options.NamedInputs = None,
    image: options.ImageFile = None,
    example: options.Example = None,
    inputs: InputFile = None,
    lengths: TextLengths = None,
    protocol: ProtocolName = Protocol.limelight,
    callers: Callers = None,
    rate: Rate = None,
    ramp: RampFlag = False,
    p99: Bound = None,
    seconds: Seconds = None,
    number: Requests = None,
    rows: Rows = 1,
    connections: Connections = 8,
    attempts: Attempts = 1,
    warmup: Warmup = 8,
    seed: Seed = 1,
    maps: options.Maps = None,
    layers: options.Layers = None,
    heads: options.Heads = None,
    top_k: options.TopK = 0,
    reduce: options.ReduceHeads = None,
    encoding: options.WireEncoding = options.Encoding.float32,
    version: options.Version = 0,
    json_file: JsonFile = None,
    html_file: HtmlFile = None,
) -> int:
    """Measure throughput and latency of a running server.

    A closed loop (--callers) shows the most that so many callers get. An open loop (--rate) sends at random times,
    whatever was answered, and counts latency from the time at which a call was due. --ramp finds the highest such rate
    within --p99.

    Without an input, the model's first example is sent. --map asks for attention. Calls are not retried unless
    --attempts is given. Ctrl-C ends the run with what was measured so far (exit status 130).
    """
    reports = values or []
    if model == "compare" and len(reports) == 2 and all(each.endswith(".json") for each in reports):
        compare.print_comparison(*map(Path, reports))
        return 0
    if ramp != (p99 is not None):
        raise CommandError("--ramp and --p99 belong together", status=2)
    if callers is not None and (rate is not None or ramp):
        raise CommandError("--callers is a closed loop, --rate and --ramp are open ones: give one", status=2)
    if number is not None and seconds is not None:
        raise CommandError("give either --seconds or --requests", status=2)
    if number is not None and ramp:
        raise CommandError("--ramp takes --seconds, of each rate, and no --requests", status=2)
    if inputs is not None and (values or named or image is not None or example is not None):
        raise CommandError("give either --inputs or the values of one input", status=2)
    if not maps and (layers or heads or top_k or reduce):
        raise CommandError("--map asks for attention; without it there is nothing to select from", status=2)
    if callers is None and rate is None and not ramp:
        callers = 4
    question = Question(
        model=model,
        version=version,
        rows=rows,
        words=tuple(values or ()),
        named=tuple(named or ()),
        image=image,
        example=example,
        file=inputs,
        lengths=None if lengths is None else read_lengths(lengths),
        seed=seed,
        maps=tuple(maps or ()),
        layers=tuple(layers or ()),
        heads=tuple(heads or ()),
        top_k=top_k,
        reduce=reduce.value if reduce else None,
        encoding=encoding.value,
    )
    timeout = connection.timeout if p99 is None else min(connection.timeout, max(1.0, p99 / 1000 * _PATIENCE))
    wires = Wires(min(connections, callers or connections), attempts, timeout)
    load = Load(callers or 0, rate or 0.0, None if number else seconds or _SECONDS, number, seed)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        calls, record, found = asyncio.run(_measure(connection, protocol, question, wires, load, warmup, p99))
    except Unavailable as error:
        raise connection.unreachable(error) from error
    setup = Setup(
        target=connection.target,
        protocol=protocol.value,
        method=calls.method,
        model=model,
        version=version,
        maps=question.maps,
        rows=rows,
        inputs=calls.inputs,
        loop="ramp" if ramp else "open" if rate else "closed",
        callers=load.callers,
        rate=found.knee if found else load.rate,
        connections=wires.connections,
        attempts=attempts,
        timeout=timeout,
    )
    report = Report(started, client_version(), setup, outcome_of(record, rows), found)
    return _deliver(report, json_file, html_file)


def _deliver(report: Report, json_file: Path | None, html_file: Path | None) -> int:
    """Print the report and write its files. Returns the exit status; raises CommandError where calls failed."""
    if json_file == _STANDARD_OUTPUT:
        as_json.write(json_types(report))
    else:
        if json_file is not None:
            write_file(json_file, json.dumps(json_types(report), indent=1) + "\n")
        print_report(report)
    if html_file is not None:
        write_file(html_file, page.page(report))
    outcome = report.outcome
    if outcome.interrupted:
        return 130
    if outcome.errors and report.ramp is None:
        raise CommandError(f"{outcome.errors} of {outcome.requests} requests failed; the first: {outcome.first_error}")
    return 0


async def _measure(
    connection: Connection,
    protocol: Protocol,
    question: Question,
    wires: Wires,
    load: Load,
    warmup: int,
    bound_ms: float | None,
) -> tuple[Calls, Recorder, Ramp | None]:
    """Connect, warm up, and run the load or the ramp. Raises Error if a request of the warm-up fails."""
    async with _PROTOCOLS[protocol](connection, question, wires) as calls:
        await _warm_up(calls.send, warmup)
        if bound_ms is None:
            return calls, await _run(calls.send, load, question.model), None

        async def at(rate: float) -> Recorder:
            return await _run(calls.send, replace(load, callers=0, rate=rate), f"{question.model} at {rate:.1f}/s")

        found, record = await find_knee(at, load.rate or await _first_rate(calls.send), bound_ms)
        return calls, record, found


async def _run(send: Send, load: Load, title: str) -> Recorder:
    record = Recorder()
    async with progress.shown(record, title):
        await run(send, load, record)
    return record


async def _warm_up(send: Send, number: int) -> None:
    for each in range(number):
        reply = await send(each)
        if reply.code == grpc.StatusCode.UNAVAILABLE.name:
            raise Unavailable(reply.message)
        if reply.code != OK:
            raise CommandError(f"{reply.code}: {reply.message}")


async def _first_rate(send: Send) -> float:
    """Return half of the rate that one caller alone gets."""
    record = Recorder()
    await run(send, Load(callers=1, seconds=_ALONE_SECONDS), record)
    return max(0.1, record.codes.count(OK) / record.seconds / 2)
