"""Two models beside each other: the same figure, on the same data, from the same seeds."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from scipy import stats

from research.replication.figures import ERRORS, POINTS, Record, is_made, is_share, wilson

ALIGNMENT_ERRORS = f"{ERRORS}, decoder.cross"
# The figure that a model's paper claims something of, where it is not the first that a run has.
_CLAIMED = {
    "bahdanau": "bleu",
    "luong": "bleu",
    "luong-local-p": "bleu",
    "transformer": "bleu",
    "show-attend-tell": "bleu",
    "show-attend-tell-hard": "bleu",
    "attention-unet": "intersection over union, small objects",
    "sagan": "Fréchet distance",
}
CLAIMED = frozenset(_CLAIMED.values())
CONICITY = "conicity"
_LESS_IS_BETTER = ("Fréchet distance", ALIGNMENT_ERRORS, CONICITY)

# Verdicts: in one run without a count nothing but the sign is known. SHOWN holds among all claims, ALONE by itself.
SHOWN, ALONE, SEEN = "**shown**", "shown alone", "seen in one run"
UNSHOWN = NOT_SEEN, NOT_SHOWN, OPPOSITE = "not seen in one run", "not shown", "the opposite"
_LEVEL = 0.05

Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """A figure of two models, by seed, shares in %. examples: held out, where the figure is a share of those."""

    data: str
    figure: str
    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    examples: int | None

    @property
    def seeds(self) -> int:
        """Number of seeds that both have."""
        return len(self.ours)

    @property
    def mean(self) -> float:
        """By how much the first has more."""
        return fmean(self.ours) - fmean(self.theirs)

    @property
    def interval(self) -> Interval | None:
        """95 %: Student's over the seeds; of one seed Newcombe's over the examples, and none where it has no count."""
        if self.seeds > 1:
            return student([a - b for a, b in zip(self.ours, self.theirs, strict=True)])
        if self.examples is None:
            return None
        low, high = newcombe(self.ours[0] / 100, self.theirs[0] / 100, self.examples)
        return 100 * low, 100 * high

    @property
    def gain(self) -> float:
        """By how much the first is better, as it is written."""
        return self._better(round(self.mean, 1))

    def verdict(self, less: float = 0.0, adjusted: float = 0.0) -> str:
        """The verdict on the claim that the first is the better one, or worse by no more than `less` points.

        adjusted: its p value among those of all claims (`holm`); 0 where it stands alone.
        """
        if self.interval is None:
            return SEEN if self.gain > -less else NOT_SEEN
        worst, best = sorted(self._better(each) for each in self.interval)
        if worst > -less:
            return SHOWN if adjusted < _LEVEL else ALONE
        return OPPOSITE if best < -less else NOT_SHOWN

    def p_value(self, less: float = 0.0) -> float | None:
        """Of the hypothesis that the first is worse by exactly `less` points, both sides: Student's over the seeds, of
        one seed the normal one over the examples; None where there is neither.
        """
        shift = self._better(self.mean) + less
        if self.seeds > 1:
            error = float(stats.sem([a - b for a, b in zip(self.ours, self.theirs, strict=True)]))
            return float(2 * stats.t.sf(abs(shift) / error, self.seeds - 1)) if error else float(not shift)
        if self.examples is None:
            return None
        variance = sum(share / 100 * (1 - share / 100) for share in (self.ours[0], self.theirs[0])) / self.examples
        return float(2 * stats.norm.sf(abs(shift) / 100 / math.sqrt(variance))) if variance else float(not shift)

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.mean:+.1f} (one run)"
        low, high = self.interval
        return f"{self.mean:+.1f} ({low:+.1f} to {high:+.1f})"

    @property
    def cells(self) -> tuple[str, ...]:
        """Both means, and the difference."""
        return f"{fmean(self.ours):.1f}", f"{fmean(self.theirs):.1f}", str(self), str(self.seeds)

    def _better(self, value: float) -> float:
        return -value if self.figure in _LESS_IS_BETTER else value


def differences(record: Record, base: str, other: str, figure: str = "") -> list[Difference]:
    """Of two models, by data: a figure, or that of which the first one's paper claims something. Data that were made in
    another way since, though they have the same name, are not the same.
    """
    ours, theirs = (_figures(record, model, base, figure) for model in (base, other))
    found: dict[tuple[str, str, int | None], list[tuple[float, float]]] = defaultdict(list)
    for made, (name, value, examples) in ours.items():
        if made in theirs:
            found[made[0], name, examples].append((value, theirs[made][1]))
    return [
        Difference(data, name, tuple(a for a, _ in pairs), tuple(b for _, b in pairs), examples)
        for (data, name, examples), pairs in found.items()
    ]


def student(values: Sequence[float]) -> Interval:
    """The 95 % interval of a mean over seeds, of two or more."""
    mean = fmean(values)
    spread = float(stats.t.ppf(0.975, len(values) - 1) * stats.sem(values))
    return mean - spread, mean + spread


def newcombe(first: float, second: float, count: int, other_count: int | None = None) -> Interval:
    """The 95 % interval of a difference of two shares (Newcombe 1998, method 10); too wide where examples are the same.

    count, other_count: of examples; the second's are as many where they are not said.
    """
    (low, high), (low_2, high_2) = wilson(first, count), wilson(second, other_count or count)
    middle = first - second
    return middle - math.hypot(first - low, high_2 - second), middle + math.hypot(high - first, second - low_2)


def _figures(
    record: Record, model: str, base: str, figure: str
) -> dict[tuple[str, str, int], tuple[str, float, int | None]]:
    """A model's figure, by data, their fingerprint where they are made here, and seed: its name, value, examples."""
    found = {}
    for run in record.values():
        metric = _wanted(run["metrics"], base, figure) if run["model"] == model else None
        if metric is not None:
            value = metric.get("value", 0.0) * (1 if metric["name"] in POINTS else 100)
            examples = run["data"]["held_out_examples"] if is_share(metric) else None
            data = run["data"]
            made = data["fingerprint"] if is_made(run) else ""
            found[data["name"], made, run["settings"]["seed"]] = metric["name"], value, examples
    return found


def _wanted(metrics: Sequence[dict[str, Any]], base: str, figure: str) -> dict[str, Any] | None:
    """The figure of that name; where none is named that of the claim, or the first."""
    named = {each["name"]: each for each in metrics}
    return named.get(figure) if figure else named.get(_CLAIMED.get(base, ""), metrics[0])
