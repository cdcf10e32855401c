"""The studies of training signals, and the tables of `docs/signals.md`, written from their results."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

from research.mechanisms.results import Results
from research.mechanisms.statistics import Z_POWER, Z_TEST
from research.replication.tables import with_tables, written
from research.signals import facts, movies, rewriting

FILE = Path(__file__).parents[1] / "records" / "signals.jsonl.xz"
PAGE = Path(__file__).parents[2] / "docs" / "signals.md"


@dataclass(frozen=True, kw_only=True)
class Study:
    """One table. variants: the model without the signal first; run: (variant, seed) -> measures by name."""

    title: str  # of its section on the page, which says what each variant is
    variants: Sequence[str]
    run: Callable[[str, int], dict[str, float]]

    def key(self, variant: str) -> str:
        """The key of results."""
        return f"{self.title} / {variant}"


FACTS = ("unsupervised", "supervised attention", "small, alone", "small, distilled")
REVIEWS = ("unsupervised", "supervised attention", "distilled")
REVIEWS += ("sentences by class alone", "preliminary training on rationales")
STUDIES = (
    *(Study(title=f"bAbI, {name}", variants=FACTS, run=partial(facts.run, name)) for name in facts.TASKS),
    Study(title="movie_reviews, rationales_movies", variants=REVIEWS, run=movies.run),
    Study(title="generated dates", variants=("without penalty", "doubly stochastic penalty"), run=rewriting.run),
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One line: what `smallest_difference` reads, and the means and deviations of all measures."""

    accuracy: float
    deviation: float
    seeds: int
    held_out: int
    measures: Mapping[str, tuple[float, float]]


def line(study: Study, variant: str, results: Results) -> Measured | None:
    """Sum up one variant; None where nothing was measured."""
    runs = list(results.of("run", study.key(variant)))
    if not runs:
        return None
    names = [name for name, value in runs[0].items() if isinstance(value, float) and name != "cpu_seconds"]
    measures = {
        name: (fmean(run[name] for run in runs), stdev(run[name] for run in runs) if len(runs) > 1 else math.nan)
        for name in names
    }
    accuracy, deviation = measures["accuracy"]
    return Measured(
        accuracy=accuracy, deviation=deviation, seeds=len(runs), held_out=int(runs[0]["held_out"]), measures=measures
    )


def smallest_difference(found: Sequence[Measured]) -> float:
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


def pages(results: Results) -> Mapping[Path, str]:
    """Write the page anew: its text stands there, its tables are those of the results."""
    tables = {study.title: list(section(study, results)) for study in STUDIES}
    return {PAGE: with_tables(PAGE.read_text(encoding="utf-8"), tables)}


def section(study: Study, results: Results) -> Iterator[str]:
    """Write a study's table, and the smallest difference that it could find."""
    found = {variant: each for variant in study.variants if (each := line(study, variant, results)) is not None}
    if not found:
        return
    smallest = smallest_difference(list(found.values()))
    yield f"\nSmallest difference in accuracy that could be found: {100 * smallest:.1f} points.\n"
    measures = next(iter(found.values())).measures
    names = ["accuracy", *(name for name in measures if name != "accuracy")]
    rows = ([variant, *(cell(name, *each.measures[name]) for name in names)] for variant, each in found.items())
    yield from written(("variant", *names), rows)


def cell(name: str, mean: float, deviation: float) -> str:
    """A mean with its deviation: shares as percentages, penalties as they are."""
    return f"{mean:.2f} ± {deviation:.2f}" if name == "penalty" else f"{100 * mean:.1f} ± {100 * deviation:.1f}"
