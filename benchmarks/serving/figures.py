"""What was measured, a line a measurement, kept as JSON between runs; medians over the rounds."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.kept import write
from benchmarks.load.plan import OK, Outcome, percentile
from benchmarks.process import cores


@dataclass(frozen=True)
class Figure:
    """One measurement, or the median of several. Times in milliseconds, rates a second.

    load: callers of a closed loop, or the share of capacity of an open one ("70 %"). rate: of an open loop what was
    sent. spared: the rate with the generator's processor time given back. cpu: the server's, or the runtime's, of a
    row. generator, others: shares of the machine that the generator, and programs that are not measured, took.
    """

    section: str
    lengths: str
    what: str
    who: str
    load: str
    rate: float
    spared: float
    p50: float
    p99: float
    cpu: float
    generator: float = 0.0
    lag: float = 0.0
    others: float = 0.0
    note: str = ""

    @property
    def key(self) -> tuple[str, ...]:
        return self.section, self.lengths, self.what, self.who, self.load


_NUMBERS = ("rate", "spared", "p50", "p99", "cpu", "generator", "lag", "others")


def of_outcome(
    section: str, lengths: str, what: str, who: str, load: str, outcome: Outcome, note: str = "", *, apart: bool = False
) -> Figure:
    """Take the figures from what came of a load; `apart` where the generator had cores of its own."""
    latencies, count = outcome.latencies.get(OK, []), cores()
    return Figure(
        section=section,
        lengths=lengths,
        what=what,
        who=who,
        load=load,
        rate=outcome.rate,
        spared=outcome.rate if apart else outcome.rate_without_generator(count),
        p50=percentile(latencies, 0.5) * 1e3,
        p99=percentile(latencies, 0.99) * 1e3,
        cpu=outcome.server_cpu / max(1, outcome.done) * 1e3,
        generator=outcome.generator_cpu / outcome.seconds / count,
        lag=outcome.lag * 1e3,
        others=outcome.others / outcome.seconds / count,
        note=note,
    )


@dataclass
class Results:
    """Everything of one run; `done` are the parts that need not run again."""

    machine: str
    settings: dict[str, float]
    figures: list[Figure] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    tunings: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def save(self, file: Path) -> None:
        """Keep them."""
        write(file, asdict(self))

    @classmethod
    def load(cls, file: Path) -> "Results":
        """Read what was kept."""
        content = json.loads(file.read_text(encoding="utf-8"))
        content["figures"] = [Figure(**each) for each in content["figures"]]
        return cls(**content)


class Medians:
    """The median figure of every measurement, looked up by what it is of."""

    def __init__(self, figures: Iterable[Figure]) -> None:
        by_key: dict[tuple[str, ...], list[Figure]] = {}
        for each in figures:
            by_key.setdefault(each.key, []).append(each)
        self.all = [_median(each) for each in by_key.values()]
        self._by_key = {each.key: each for each in self.all}

    def get(self, section: str, lengths: str, what: str, who: str, load: str) -> Figure | None:
        """Find one, if it was measured."""
        return self._by_key.get((section, lengths, what, who, load))

    def of(self, section: str, **wanted: str) -> list[Figure]:
        """All of a section that are as wanted, in the order in which they were measured."""
        return [
            each
            for each in self.all
            if each.section == section and all(getattr(each, name) == value for name, value in wanted.items())
        ]


def _median(figures: list[Figure]) -> Figure:
    numbers = {name: statistics.median(getattr(each, name) for each in figures) for name in _NUMBERS}
    return Figure(**{**asdict(figures[-1]), **numbers})
