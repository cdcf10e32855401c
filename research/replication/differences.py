"""Two models beside each other: the same figure, on the same data, from the same seeds."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import Any

import numpy as np

from limelight_models.cards.by_example import ByExample, unpacked
from limelight_models.training.runs import BY_EXAMPLE
from research.mechanisms.statistics import Estimate, Prior, estimate, parts, prior
from research.replication.figures import (
    DISTANCE,
    ERRORS,
    FORECAST,
    POINTS,
    Record,
    data_of,
    is_made,
    is_share,
    wilson,
)

ALIGNMENT_ERRORS = f"{ERRORS}, decoder.cross"
# The figure that a model's paper claims something of, where it is not the first that a run has.
_CLAIMED = {
    "bahdanau": "bleu",
    "luong": "bleu",
    "luong-local-p": "bleu",
    "transformer": "bleu",
    "show-attend-tell": "bleu",
    "show-attend-tell-hard": "bleu",
    "attention-unet": "intersection over union",
    "sagan": DISTANCE,
}
CLAIMED = frozenset(_CLAIMED.values())
CONICITY, COSINE = "conicity", "pairwise cosine"
_LESS_IS_BETTER = (DISTANCE, FORECAST, ALIGNMENT_ERRORS, CONICITY, COSINE)
_OWN_SCALE = (DISTANCE, FORECAST)  # not of a hundred, so that seeds vary otherwise
_DRAWS = 1_000  # of which only variances are taken

# Examples: those that both models answered; as if each had as many of its own; others for each seed, whose variance
# is that of examples as well.
PAIRED, COUNTED, OTHERS = "paired", "counted", "by seed"

Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """A figure of two models, by seed, of a hundred (distances and errors of forecasts as they are).

    parameters: of both. learning: whether the best epoch of a run was its last, so that it learned on. examples: how
    the interval is of other examples too (`PAIRED`, `COUNTED`, `OTHERS`), empty where it is not. shared, own: the
    variance that they bring to all seeds alike, and to each (`statistics.estimate`). once: of one seed, the 95 %
    interval over examples alone, where those are known or counted.
    """

    data: str
    made: bool
    figure: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    parameters: tuple[int, int] = (1, 1)
    learning: bool = False
    examples: str = ""
    shared: float = 0.0
    own: float = 0.0
    once: Interval | None = None

    @property
    def seeds(self) -> int:
        """Number of seeds that both have."""
        return len(self.ours)

    @property
    def by_seed(self) -> list[float]:
        """By how much the first has more."""
        return [a - b for a, b in zip(self.ours, self.theirs, strict=True)]

    @property
    def mean(self) -> float:
        """By how much the first has more, over the seeds."""
        return fmean(self.by_seed)

    @property
    def side(self) -> int:
        """1 where more is better, -1 where less is."""
        return -1 if self.figure in _LESS_IS_BETTER else 1

    @property
    def gain(self) -> float:
        """By how much the first is better."""
        return self.side * self.mean

    @property
    def times(self) -> float:
        """How many times the second's parameters the first has."""
        return self.parameters[0] / self.parameters[1]

    def estimate(self, of: Prior) -> Estimate | None:
        """The mean over the seeds with its error; None for one seed."""
        own = Prior() if self.figure in _OWN_SCALE else of
        return estimate(self.by_seed, own, self.shared, self.own) if self.seeds > 1 else None

    def interval(self, of: Prior) -> Interval | None:
        """95 %: over seeds and examples, of one seed over examples alone, and None where it has none."""
        found = self.estimate(of)
        return found.interval if found else self.once

    def written(self, of: Prior) -> str:
        """The mean with its interval."""
        interval = self.interval(of)
        return f"{self.mean:+.1f}" + (f" ({interval[0]:+.1f} to {interval[1]:+.1f})" if interval else "")

    def cells(self, of: Prior) -> tuple[str, ...]:
        """Both means, the difference, and how many seeds it is of."""
        return f"{fmean(self.ours):.1f}", f"{fmean(self.theirs):.1f}", self.written(of), str(self.seeds)


def differences(record: Record, base: str, other: str, figure: str = "") -> list[Difference]:
    """Of two models, by data: a figure, or that of which the first one's paper claims something. Data that were made in
    another way since, though they have the same name, are not the same. Of several runs of a seed the last counts.
    """
    ours, theirs = (_runs(record, model, base, figure) for model in (base, other))
    pairs: dict[tuple[str, str], dict[int, tuple[_Run, _Run]]] = defaultdict(dict)
    for place, run in ours.items():
        if place in theirs:
            pairs[run.data, run.figure][run.seed] = (run, theirs[place])
    return [_difference([each[seed] for seed in sorted(each)]) for each in pairs.values()]


def seeds_prior(found: Iterable[Difference]) -> Prior:
    """How the seeds' variances of comparisons lie: of all figures of a hundred, each comparison once."""
    several = {(each.ours, each.theirs): each for each in found if each.seeds > 1 and each.figure not in _OWN_SCALE}
    variances = [float(np.var(each.by_seed, ddof=1)) for each in several.values()]
    return prior(variances, [each.seeds - 1 for each in several.values()])


def newcombe(first: float, second: float, count: int, other_count: int | None = None) -> Interval:
    """The 95 % interval of a difference of two shares (Newcombe 1998, method 10); too wide where examples are the same.

    count, other_count: of examples; the second's are as many where they are not said.
    """
    (low, high), (low_2, high_2) = wilson(first, count), wilson(second, other_count or count)
    middle = first - second
    return middle - math.hypot(first - low, high_2 - second), middle + math.hypot(high - first, second - low_2)


@dataclass(frozen=True)
class _Run:
    """A figure of a run. count: of held-out examples, where it is a share of those."""

    data: str
    made: bool
    seed: int
    fingerprint: str
    held_out: str
    figure: str
    value: float
    count: int | None
    by_example: ByExample | None
    parameters: int
    learning: bool

    @property
    def scale(self) -> float:
        """Of a figure that examples make, so that it is of a hundred."""
        return 1.0 if self.figure in POINTS else 100.0


def _runs(record: Record, model: str, base: str, figure: str) -> dict[tuple[str, str, int], _Run]:
    """A model's runs, by data, their fingerprint where they are made here, and seed."""
    found = {}
    for run in record.values():
        metric = _wanted(run["metrics"], base, figure) if run["model"] == model else None
        if metric is None:
            continue
        data, name = run["data"], metric["name"]
        packed: Mapping[str, Any] = run.get(BY_EXAMPLE, {})
        each = _Run(
            data_of(run),
            is_made(run),
            run["settings"]["seed"],
            data["fingerprint"],
            data.get("held_out", ""),
            name,
            metric.get("value", 0.0) * (1 if name in POINTS else 100),
            data["held_out_examples"] if is_share(metric) else None,
            unpacked(packed[name]) if name in packed else None,
            run["parameters"],
            1 < run["epochs"] == run["best_epoch"],
        )
        found[each.data, each.fingerprint if each.made else "", each.seed] = each
    return found


def _wanted(metrics: Sequence[dict[str, Any]], base: str, figure: str) -> dict[str, Any] | None:
    """The figure of that name; where none is named that of the claim, or the first."""
    named = {each["name"]: each for each in metrics}
    return named.get(figure) if figure else named.get(_CLAIMED.get(base, ""), metrics[0])


def _difference(pairs: Sequence[tuple[_Run, _Run]]) -> Difference:
    """Of two models, with what examples bring to it: paired where both have answers by example to the same ones; as if
    each had examples of its own where they are only counted, which is too much; and nothing where they are not.
    """
    first, second = pairs[0]
    values = tuple(a.value for a, _ in pairs), tuple(b.value for _, b in pairs)
    one = len(pairs) == 1
    # Files may hold out the same examples for every seed, whatever is learned from; what is made here is made by seed.
    same = not first.made or len({ours.fingerprint for ours, _ in pairs}) == 1
    same &= not first.held_out or len({ours.held_out for ours, _ in pairs}) == 1
    examples = "" if one or same else OTHERS
    shared = own = 0.0
    once = None
    if all(map(_is_paired, pairs)):
        examples = PAIRED
        drawn = np.stack([_drawn(*pair) for pair in pairs], 1)
        if one:
            low, high = np.quantile(drawn[:, 0], (0.025, 0.975)).tolist()
            once = low, high
        else:
            shared, own = parts(drawn)
    elif first.count is not None:
        examples = COUNTED
        own = fmean(map(_binomial, pairs))
        if same and not one:  # how much of it is the same for every seed is not known
            shared, own = own, 0.0
        if one:
            low, high = newcombe(first.value / 100, second.value / 100, first.count)
            once = 100 * low, 100 * high
    return Difference(
        first.data,
        first.made,
        first.figure,
        *values,
        (first.parameters, second.parameters),
        any(run.learning for pair in pairs for run in pair),
        examples,
        shared,
        own,
        once,
    )


def _is_paired(pair: tuple[_Run, _Run]) -> bool:
    """Whether both have answers to the same examples."""
    ours, theirs = (each.by_example for each in pair)
    same = pair[0].fingerprint == pair[1].fingerprint or "" != pair[0].held_out == pair[1].held_out
    return same and ours is not None and theirs is not None and len(ours.numbers) == len(theirs.numbers)


def _binomial(pair: tuple[_Run, _Run]) -> float:
    """The variance of a difference of two shares of examples that are not the same."""
    return sum(each.value * (100 - each.value) / (each.count or 1) for each in pair)


def _drawn(ours: _Run, theirs: _Run) -> np.ndarray:
    """Differences [draw] over examples that are drawn with replacement, by their places the same for both and for every
    seed: where seeds hold out others, what these bring to all is found to be nothing.
    """

    def figures() -> Iterator[np.ndarray]:
        for run in (ours, theirs):
            assert run.by_example is not None
            terms = run.by_example.terms
            yield run.scale * run.by_example.figure(_times(len(terms)) @ terms, len(terms))

    first, second = figures()
    found: np.ndarray = first - second
    return found


@lru_cache(maxsize=4)
def _times(count: int) -> np.ndarray:
    """How often each of so many examples is drawn, [draw, example]."""
    generator = np.random.default_rng(0)
    return np.stack([np.bincount(generator.integers(count, size=count), minlength=count) for _ in range(_DRAWS)])
