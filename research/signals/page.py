"""The studies of training signals, and `docs/signals.md`, written from their results."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

from research.mechanisms.results import Results
from research.mechanisms.statistics import Z_POWER, Z_TEST
from research.signals import facts, movies, rewriting

FILE = Path(__file__).parents[1] / "records" / "signals.jsonl.xz"
HEADER = """# Training signals at work

Written by `python -m research.signals` from `research/records/signals.jsonl.xz`. Do not edit.

Each table holds one small model on one data set, trained with a signal of `models/limelight_models/attention/signals/`
and without it: same data, same steps, same rate, seeds 0, 1 and 2; nothing was tuned, and the weight of a signal is
what is stated. Figures are on held-out data, mean ± standard deviation over seeds. Beside each table stands the
smallest difference in accuracy that the study could find (a test at 5 % that shows it four times out of five, from the
spread over seeds and the number of held-out examples). The data sets are small and the models too: the figures say
what a signal does here.
"""


@dataclass(frozen=True, kw_only=True)
class Study:
    """One table. variants: the model without the signal first; run: (variant, seed) -> measures by name."""

    title: str
    rows: str  # of the catalogue
    said: str
    variants: Mapping[str, str]  # with what each is
    run: Callable[[str, int], dict[str, float]]

    def key(self, variant: str) -> str:
        """The key of results."""
        return f"{self.title} / {variant}"


FACTS = {
    "unsupervised": "learns from answers alone",
    "supervised attention": "is told which fact each hop should look at (I1)",
    "small, alone": "a smaller model, from answers alone",
    "small, distilled": "the smaller model, with the weights of a trained `supervised attention` as target (I4)",
}
STUDIES = (
    *(
        Study(
            title=f"bAbI, {name}",
            rows="I1, I4",
            said=(
                f"A memory network with {hops} hop{'s' if hops > 1 else ''} over the latest {facts.MOST_FACTS} facts,"
                f" {facts.TRAINING:,} questions to learn from, {facts.STEPS} steps of {facts.BATCH}; signals weigh"
                f" {facts.SIGNAL_WEIGHT:g} beside the cross-entropy of the answer."
            ),
            variants=FACTS,
            run=partial(facts.run, name),
        )
        for name, (_, hops) in facts.TASKS.items()
    ),
    Study(
        title="movie_reviews, rationales_movies",
        rows="I1, I2, I4",
        said=(
            f"Hierarchical attention (words, sentences) over the first 20 sentences of a review, {movies.STEPS}"
            f" steps of {movies.BATCH}; signals weigh {movies.SIGNAL_WEIGHT:g}. Preliminary training has as many"
            " steps again, before the model learns to classify."
        ),
        variants={
            "unsupervised": "learns from classes alone",
            "supervised attention": "is told on which words and sentences people put their marks (I1)",
            "distilled": "the weights of a trained `supervised attention` are its target (I4)",
            "sentences by class alone": "sentences weighed by a classifier of reasons that learns from classes alone",
            "preliminary training on rationales": (
                "that classifier learns from marks first (neutral, or a reason for either class), is plugged in and"
                " kept as it is (I2)"
            ),
        },
        run=movies.run,
    ),
    Study(
        title="generated dates",
        rows="I6",
        said=(
            f"A small RNNsearch that rewrites dates letter by letter, {rewriting.TRAINING:,} dates to learn from,"
            f" {rewriting.STEPS} steps of {rewriting.BATCH}; the penalty weighs {rewriting.PENALTY:g}. A date counts as"
            " right where every letter is."
        ),
        variants={
            "without penalty": "learns from the letters alone",
            "doubly stochastic penalty": "every letter read should get a weight of 1 in all (I6)",
        },
        run=rewriting.run,
    ),
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


def page(results: Results) -> str:
    """The whole page."""
    return HEADER + "".join(part for study in STUDIES for part in section(study, results))


def section(study: Study, results: Results) -> Iterator[str]:
    """One table with what stands beside it."""
    found = {variant: each for variant in study.variants if (each := line(study, variant, results)) is not None}
    if not found:
        return
    one = next(iter(found.values()))
    yield f"\n## {study.title} ({study.rows})\n\n{study.said} {one.held_out:,} held out, {one.seeds} seeds."
    smallest = smallest_difference(list(found.values()))
    yield f" Smallest difference in accuracy that could be found: {100 * smallest:.1f} points.\n\n"
    names = ["accuracy", *(name for name in one.measures if name != "accuracy")]
    yield f"| variant | {' | '.join(names)} |\n|{'---|' * (1 + len(names))}\n"
    for variant, each in found.items():
        yield f"| {variant} | {' | '.join(cell(name, *each.measures[name]) for name in names)} |\n"
    yield "\n" + "".join(f"- *{variant}*: {study.variants[variant]}.\n" for variant in found)


def cell(name: str, mean: float, deviation: float) -> str:
    """A mean with its deviation: shares as percentages, penalties as they are."""
    return f"{mean:.2f} ± {deviation:.2f}" if name == "penalty" else f"{100 * mean:.1f} ± {100 * deviation:.1f}"
