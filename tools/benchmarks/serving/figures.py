"""The measurements of serving, a row each, and their medians over the rounds."""

import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.load import Outcome
from benchmarks.process import cores
from benchmarks.records import read, write

LIMELIGHT, TRITON, MLSERVER = "Limelight", "Triton (python backend)", "MLServer"
RUNTIME, ECHO_SERVER = "runtime", "bare echo"


@dataclass(frozen=True)
class Figure:
    """One measurement, or the median of several. Times in milliseconds, rates a second.

    load: callers of a closed loop, or the share of capacity of an open one ("70 %"). rate: sent, in an open loop.
    adjusted: the rate with the processor time of the load generator given back. cpu: of the server, or of the runtime,
    a row. generator, others: shares of the machine that the generator, and programs that are not measured, took.
    """

    section: str
    lengths: str
    call: str
    server: str
    load: str
    rate: float
    adjusted: float
    p50: float
    p99: float
    cpu: float
    generator: float = 0.0
    lag: float = 0.0
    others: float = 0.0
    note: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        return self.section, self.lengths, self.call, self.server, self.load


_NUMBERS = ("rate", "adjusted", "p50", "p99", "cpu", "generator", "lag", "others")


def of_outcome(
    section: str,
    lengths: str,
    call: str,
    server: str,
    load: str,
    outcome: Outcome,
    note: str = "",
    *,
    apart: bool = False,
) -> Figure:
    """Take the figures from the outcome of a load; `apart` where the generator had cores of its own."""
    count = cores()
    return Figure(
        section=section,
        lengths=lengths,
        call=call,
        server=server,
        load=load,
        rate=outcome.rate,
        adjusted=outcome.rate if apart else outcome.rate_without_generator(count),
        p50=outcome.milliseconds(0.5),
        p99=outcome.milliseconds(0.99),
        cpu=outcome.cpu,
        generator=outcome.generator_cpu / outcome.seconds / count,
        lag=outcome.lag * 1e3,
        others=outcome.others / outcome.seconds / count,
        note=note,
    )


@dataclass
class Results:
    """The record of one run. done: the parts that are complete; absent: the peers that are not installed, and why."""

    machine: str
    commit: str
    settings: dict[str, float]
    rows: list[Figure] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    tunings: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def save(self, file: Path) -> None:
        """Write the record."""
        write(file, asdict(self))

    @classmethod
    def load(cls, file: Path) -> "Results":
        """Read a record."""
        content = read(file)
        content["rows"] = [Figure(**each) for each in content["rows"]]
        return cls(**content)


class Medians:
    """The median of every measurement over the rounds, by its key."""

    def __init__(self, rows: Iterable[Figure]) -> None:
        by_key: dict[tuple[str, ...], list[Figure]] = {}
        for each in rows:
            by_key.setdefault(each.key, []).append(each)
        self.all = [_median(each) for each in by_key.values()]
        self._by_key = {each.key: each for each in self.all}

    def get(self, section: str, lengths: str, call: str, server: str, load: str) -> Figure | None:
        """Give one; None where it was not measured."""
        return self._by_key.get((section, lengths, call, server, load))

    def of(self, section: str, **wanted: str) -> list[Figure]:
        """Give all of a section with the wanted fields, in the order of measurement."""
        return [
            each
            for each in self.all
            if each.section == section and all(getattr(each, name) == value for name, value in wanted.items())
        ]

    def best_runtime(self, section: str, lengths: str, call: str, callers: int) -> Figure | None:
        """Give the fastest way to run the runtime alone for at most so many callers."""
        ways = [each for each in self.of(section, lengths=lengths, call=call) if each.server.startswith(RUNTIME)]
        return max((each for each in ways if int(each.load) <= callers), key=lambda each: each.rate, default=None)


def _median(figures: list[Figure]) -> Figure:
    numbers = {name: statistics.median(getattr(each, name) for each in figures) for name in _NUMBERS}
    return Figure(**{**asdict(figures[-1]), **numbers})
