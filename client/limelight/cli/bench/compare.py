"""Two reports side by side."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from limelight.cli.bench.report import Outcome, Report, Setup, read_report


def print_comparison(first: Path, second: Path) -> None:
    """Print what differs in the setups of two reports, and their results with the change in percent.

    Raises:
        CommandError: a file is no report.
    """
    reports = read_report(first), read_report(second)
    for line in comparison(*reports):
        print(line)


def comparison(first: Report, second: Report) -> Iterator[str]:
    """Yield the lines of a comparison."""
    for each in fields(Setup):
        before, after = getattr(first.setup, each.name), getattr(second.setup, each.name)
        if before != after and not (each.name == "rate" and first.ramp and second.ramp):
            yield f"differs: {each.name} {_plain(before)} -> {_plain(after)}"
    yield f"{'':24}{'first':>12}{'second':>12}{'change':>10}"
    if first.ramp and second.ramp:
        yield _line("knee, calls/s", first.ramp.knee, second.ramp.knee)
    before_values, after_values = _values(first.outcome), _values(second.outcome)
    for name, before in before_values.items():
        if name in after_values:
            yield _line(name, before, after_values[name])


def _values(outcome: Outcome) -> dict[str, float]:
    return {
        "requests/s": outcome.requests_per_second,
        **{f"{name} ms": value for name, value in outcome.latency_ms.items()},
        "errors, %": 100 * outcome.errors / max(1, outcome.requests),
        "bytes of an answer": outcome.response_bytes,
    }


def _line(name: str, before: float, after: float) -> str:
    change = f"{100 * (after / before - 1):+.1f} %" if before else ""
    return f"{name:24}{before:12,.2f}{after:12,.2f}{change:>10}"


def _plain(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)
