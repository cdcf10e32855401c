"""From the results of single runs to one line a configuration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Protocol

from benchmarks.mechanism_study.configurations import Configuration
from benchmarks.mechanism_study.results import Results

REFERENCE = {  # what attention has to beat: the same model with equal weights (catalogue N2)
    "sentence": "sentence / reference / unweighted average, one look",
    "pair": "pair / reference / unweighted averages",
    "aspect": "aspect / reference / unweighted averages",
    "document": "document / reference / unweighted averages, two levels",
}
Z_TEST, Z_POWER = 1.96, 0.842  # of 5 % on two sides, of 80 %


@dataclass(frozen=True, kw_only=True)
class Line:
    """Means over seeds. deviation: of the accuracy, over seeds; overlap: means of its fields, for documents."""

    configuration: Configuration
    seeds: int
    held_out: int
    accuracy: float
    deviation: float
    parameters: int
    seconds: float
    latency: float | None
    entropy: float | None
    overlap: dict[str, float]


def line(configuration: Configuration, results: Results) -> Line | None:
    """Sum up one configuration; None where nothing was measured."""
    key = configuration.same_as or configuration.key
    runs = list(results.of("run", key))
    if not runs:
        return None
    accuracies = [run["accuracy"] for run in runs]
    latency = next((row["ms"] for row in results.of("latency", key)), None)
    overlaps: list[dict[str, Any]] = [run["overlap"] for run in runs if "overlap" in run]
    return Line(
        configuration=configuration,
        seeds=len(runs),
        held_out=runs[0]["held_out"],
        accuracy=fmean(accuracies),
        deviation=stdev(accuracies) if len(runs) > 1 else math.nan,
        parameters=runs[0]["mechanism_parameters"],
        seconds=fmean(run["train_cpu_seconds"] for run in runs),
        latency=latency,
        entropy=fmean(entropies) if (entropies := [each for run in runs for each in weights(run["entropy"])]) else None,
        overlap={name: fmean(each[name] for each in overlaps) for name in overlaps[0]} if overlaps else {},
    )


def weights(entropy: dict[str, float | None]) -> list[float]:
    """The entropies of weights that look at something. An affinity is no weight; how many letters a word has is not
    known from masks, so that a word's letters have no entropy to be divided by.
    """
    none = ("affinity", "letter")
    return [value for name, value in entropy.items() if value is not None and not name.endswith(none)]


class Scattered(Protocol):
    """An accuracy with what it was measured on. deviation: over seeds."""

    @property
    def accuracy(self) -> float: ...
    @property
    def deviation(self) -> float: ...
    @property
    def seeds(self) -> int: ...
    @property
    def held_out(self) -> int: ...


def smallest_difference(found: Sequence[Scattered]) -> float:
    """The difference of two lines' accuracies that a two-sided test at 5 % finds with probability 80 %.

    (z_0.975 + z_0.8) × the standard error of a difference: the mean line's variance over seeds, divided by the seeds,
    and that of counting right answers among those held out, p (1 - p) / n, for either line. All lines answer the same
    held-out examples, which makes real differences a little easier to find than this says.
    """
    variances = [
        each.deviation**2 / each.seeds + each.accuracy * (1 - each.accuracy) / each.held_out
        for each in found
        if each.seeds > 1
    ]
    return (Z_TEST + Z_POWER) * math.sqrt(2 * fmean(variances))


def lines(configurations: Sequence[Configuration], results: Results) -> dict[str, Line]:
    """All lines that there are, by key."""
    found = {each.key: line(each, results) for each in configurations}
    return {key: each for key, each in found.items() if each is not None}
