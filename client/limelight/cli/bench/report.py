"""The report of a run: what was sent, what came of it, and both as JSON."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from limelight.base.commands import CommandError
from limelight.base.counts import counted
from limelight.base.streams import flush
from limelight.cli.bench.load import OK, Recorder

FORMAT = 1
_NAMED = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}
# Shares of the curve of latencies, in percent, denser towards the slowest calls.
_SHARES = (0.0, *range(5, 90, 5), *range(90, 99), 99.0, 99.25, 99.5, 99.75, 99.9, 99.95, 99.99, 100.0)
_MOST_INTERVALS, _SHORTEST_INTERVAL = 60, 0.25


@dataclass(frozen=True)
class Setup:
    """Settings of a run. An option that does not apply is None, 0 or empty."""

    target: str
    protocol: str
    method: str
    model: str
    version: int
    maps: tuple[str, ...]
    rows: int
    inputs: int
    """Number of different requests that were sent in turn."""
    loop: str
    """"closed", "open" or "ramp"."""
    callers: int
    rate: float
    """Calls a second that were due, in an open loop."""
    connections: int
    attempts: int
    timeout: float


@dataclass(frozen=True)
class Interval:
    """A part of a run. start: seconds from the start of the run."""

    start: float
    seconds: float
    answers: int
    errors: int
    p50_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Outcome:
    """Results of a run. Latencies are those of answered calls; failed calls count as errors.

    generator_cores: processor time of this process per second. Near 1 the measurement shows its own limit.
    """

    seconds: float
    interrupted: bool
    requests: int
    errors: int
    codes: Mapping[str, int]
    first_error: str | None
    requests_per_second: float
    """Answered calls a second."""
    rows_per_second: float
    latency_ms: Mapping[str, float]
    """mean, p50, p90, p95, p99, p99.9 and max; empty without an answer."""
    curve_ms: tuple[tuple[float, float], ...]
    """Latency by share of the answered calls in percent."""
    response_bytes: float
    """Mean size of an answer."""
    send_lag_ms: float | None
    """99th percentile of how late calls of an open loop were sent."""
    generator_cores: float
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class Step:
    """One rate of a ramp. p99_ms: over all calls, a failed one counting as infinitely slow; None for infinity."""

    rate: float
    requests_per_second: float
    errors: int
    p50_ms: float | None
    p99_ms: float | None
    met: bool


@dataclass(frozen=True)
class Ramp:
    """The search for the knee: the highest rate whose p99 was at most `p99_ms`; 0 if no rate met it."""

    p99_ms: float
    knee: float
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Report:
    """A whole run. Of a ramp, the outcome is that of the knee, or of the last step where no rate met the bound."""

    started: str
    """Time of the start, ISO 8601 in UTC."""
    client: str
    """Version of this package."""
    setup: Setup
    outcome: Outcome
    ramp: Ramp | None = None
    format: int = FORMAT


def outcome_of(record: Recorder, rows: int) -> Outcome:
    """Summarise the calls of a run."""
    seconds = max(record.seconds, 1e-9)
    codes = Counter({OK: 0})
    codes.update(record.codes)
    answered = np.array([code == OK for code in record.codes], bool)
    latencies = np.array(record.latencies) * 1000
    good = latencies[answered]
    sizes = np.array(record.sizes)[answered]
    errors = len(record.codes) - len(good)
    return Outcome(
        seconds=record.seconds,
        interrupted=record.interrupted,
        requests=len(record.codes),
        errors=errors,
        codes=dict(codes),
        first_error=record.first_error,
        requests_per_second=len(good) / seconds,
        rows_per_second=rows * len(good) / seconds,
        latency_ms=_latencies(good),
        curve_ms=tuple((share, float(np.percentile(good, share))) for share in _SHARES) if len(good) else (),
        response_bytes=float(sizes.mean()) if len(sizes) else 0.0,
        send_lag_ms=float(np.percentile(record.lags, 99)) * 1000 if record.lags else None,
        generator_cores=record.processor_seconds / seconds,
        intervals=_intervals(np.array(record.ends), latencies, answered, record.seconds),
    )


def p99_of_all(record: Recorder) -> float:
    """Return the 99th percentile of the latencies in milliseconds; failed calls count as infinite."""
    if not record.codes:
        return float("inf")
    latencies = sorted(
        latency if code == OK else float("inf") for latency, code in zip(record.latencies, record.codes, strict=True)
    )
    return latencies[max(0, -(-99 * len(latencies) // 100) - 1)] * 1000


def _latencies(milliseconds: Any) -> dict[str, float]:
    if not len(milliseconds):
        return {}
    named = {name: float(np.percentile(milliseconds, share)) for name, share in _NAMED.items()}
    return {"mean": float(milliseconds.mean()), **named, "max": float(milliseconds.max())}


def _intervals(ends: Any, latencies: Any, answered: Any, seconds: float) -> tuple[Interval, ...]:
    count = min(_MOST_INTERVALS, max(1, int(seconds / _SHORTEST_INTERVAL)))
    width = seconds / count
    places = np.minimum((ends / (width or 1.0)).astype(int), count - 1)  # the last call ends with its interval
    found = []
    for place in range(count):
        inside = places == place
        good = latencies[inside & answered]
        p50, p99 = (float(np.percentile(good, share)) if len(good) else None for share in (50, 99))
        found.append(Interval(place * width, width, len(good), int(inside.sum()) - len(good), p50, p99))
    return tuple(found)


def read_report(path: Path) -> Report:
    """Read a report that `--json` wrote.

    Raises:
        CommandError: the file is none.
        OSError: the file cannot be read.
    """
    try:
        document = json.loads(path.read_bytes())
        if document["format"] != FORMAT:
            raise CommandError(f"{path}: format {document['format']!r} is not the {FORMAT} of this version")
        outcome = _fields(Outcome, document["outcome"])
        outcome["intervals"] = tuple(Interval(**_fields(Interval, each)) for each in outcome["intervals"])
        outcome["curve_ms"] = tuple((share, value) for share, value in outcome["curve_ms"])
        setup = _fields(Setup, document["setup"])
        setup["maps"] = tuple(setup["maps"])
        ramp = document.get("ramp")
        steps = tuple(Step(**_fields(Step, each)) for each in ramp["steps"]) if ramp else ()
        return Report(
            started=document["started"],
            client=document["client"],
            setup=Setup(**setup),
            outcome=Outcome(**outcome),
            ramp=Ramp(ramp["p99_ms"], ramp["knee"], steps) if ramp else None,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is not a report of `limelight bench --json`") from error


def _fields(kind: Any, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a dataclass from a document that may have others."""
    return {each.name: document[each.name] for each in fields(kind)}


def print_report(report: Report) -> None:
    """Print a report for a person."""
    setup, outcome = report.setup, report.outcome
    loops = {"closed": counted(setup.callers, "caller"), "open": f"{setup.rate:g} calls/s due", "ramp": "ramp"}
    print(f"{setup.method} {setup.model}, {loops[setup.loop]}, {outcome.seconds:.1f} s")
    if report.ramp:
        _print_ramp(report.ramp)
    rows = f" of {setup.rows} rows ({outcome.rows_per_second:.1f} rows/s)" if setup.rows > 1 else ""
    print(f"{outcome.requests_per_second:.1f} requests/s{rows}, answers of {outcome.response_bytes:,.0f} bytes")
    again = "no retries" if setup.attempts == 1 else f"up to {setup.attempts} attempts a call"
    print(f"{', '.join(f'{code} {count}' for code, count in outcome.codes.items())} ({again})")
    if outcome.latency_ms:
        print("latency " + ", ".join(f"{name} {value:.1f} ms" for name, value in outcome.latency_ms.items()))
    for warning in warnings(outcome):
        print(warning)
    flush()


def warnings(outcome: Outcome) -> list[str]:
    """Return what makes the numbers doubtful."""
    found = []
    if outcome.generator_cores > 0.9:
        found.append(
            f"the load generator used {outcome.generator_cores:.2f} cores, and its Python code can use one: "
            "the server may be faster; run several generators"
        )
    if outcome.send_lag_ms is not None and outcome.send_lag_ms > 10:
        found.append(f"calls were sent up to {outcome.send_lag_ms:.0f} ms late (p99), which their latency includes")
    return found


def _print_ramp(ramp: Ramp) -> None:
    for step in ramp.steps:
        p99 = f"{counted(step.errors, 'call')} failed" if step.p99_ms is None else f"p99 {step.p99_ms:.1f} ms"
        print(f"  {step.rate:8.1f} calls/s: {p99}{'' if step.met else ', over the bound'}")
    if ramp.knee:
        print(f"knee: {ramp.knee:.1f} calls/s with a p99 of at most {ramp.p99_ms:g} ms")
    else:
        print(f"no rate had a p99 of at most {ramp.p99_ms:g} ms")
