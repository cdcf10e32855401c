"""What is kept of a run of the fuzzer, and what docs/reliability.md says of it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import kept
from benchmarks.fuzzing.memory import Grown, grown
from benchmarks.fuzzing.run import Report
from benchmarks.load.plan import percentile
from benchmarks.tables import Bar, bar_table


@dataclass(frozen=True)
class Fuzzed:
    """A run, but for what is long. memory: MiB of the server's own, at rest after `at` calls. health: ms, median and
    p99.
    """

    machine: str
    seed: int
    calls: int
    seconds: float
    failures: int
    gauges_left: int
    golden: dict[str, int]
    at: list[int]
    memory: list[float]
    health_p50: float
    health_p99: float

    @classmethod
    def of(cls, report: Report) -> "Fuzzed":
        """Take what is kept of a run."""
        probes = [each * 1e3 for each in report.health]
        return cls(
            machine=kept.machine(),
            seed=report.seed,
            calls=report.calls,
            seconds=round(report.seconds),
            failures=report.failures,
            gauges_left=report.gauges_left,
            golden=report.golden,
            at=report.at,
            memory=report.memory,
            health_p50=round(percentile(probes, 0.5), 1),
            health_p99=round(percentile(probes, 0.99), 1),
        )

    @classmethod
    def load(cls, file: Path) -> "Fuzzed":
        """Read it."""
        return cls(**json.loads(file.read_text(encoding="utf-8")))

    def save(self, file: Path) -> None:
        """Write it."""
        kept.write(file, asdict(self))


def section(found: Fuzzed) -> list[str]:
    """Write the page's part."""
    growth = grown(found.at, found.memory)
    alone = found.golden.get("the same", 0)
    said = [
        f"## {found.calls:,} fuzzed calls",
        "",
        f"On {found.machine}; seed {found.seed}, {found.seconds / 60:.0f} minutes under attack. {alone:,} good calls",
        "among them were answered, and asked again alone, the same. Health took",
        f"{found.health_p50:.1f} ms (median) and {found.health_p99:.1f} (p99). {_words(growth)}",
        "",
    ]
    return said + bar_table(
        [
            Bar("INTERNAL, UNKNOWN or without an end", found.failures, 0, at_most=True),
            Bar("good answers mixed up", found.golden.get("mixed", 0), 0, at_most=True),
            Bar("gauges not back at zero", found.gauges_left, 0, at_most=True),
            Bar("growth of memory, once warm", growth and growth.share, 0.05, at_most=True),
        ]
    )


def _words(growth: Grown | None) -> str:
    return "" if growth is None else f"Memory at rest: {growth}."
