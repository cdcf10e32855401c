"""Figures of a run as words: shares with their intervals, and others."""

from collections.abc import Mapping
from typing import Any

from scipy.stats import binomtest

Record = Mapping[str, Any]
# Figures of where a model looks, which have a table of their own.
LOOKS = WEIGHT, STRONGEST, ERRORS = "weight on the right place", "strongest on the right place", "alignment error rate"
POINTS = ("bleu", "Fréchet distance")  # no shares
_COUNTED = ("accuracy", "exact match", "drawn as asked")  # of all held-out examples, each right or wrong
_SHORT = {"bleu": "BLEU", "token accuracy": "tokens", "exact match": "exact"}


def is_made(run: Mapping[str, Any]) -> bool:
    """Whether a run's data are made here, or come with a package, and are not files."""
    return " --data ../" not in run["command"]


def is_share(metric: Mapping[str, Any]) -> bool:
    """Whether a figure is the share of the held-out examples that are right."""
    return metric["name"] in _COUNTED


def figure(metric: Mapping[str, Any], count: int) -> str:
    """A figure, with an interval where it is a share of the held-out examples."""
    value, name = metric.get("value", 0.0), _SHORT.get(metric["name"], metric["name"].removeprefix("entity "))
    if not is_share(metric):
        return f"{name} {shown(metric, value)}"
    low, high = wilson(value, count)
    return f"{name} {percent(value)} ({100 * low:.1f}–{100 * high:.1f})"


def shown(metric: Mapping[str, Any], value: float) -> str:
    """A value of a figure: a share as a percentage."""
    return f"{value:.1f}" if metric["name"] in POINTS else percent(value)


def percent(value: float) -> str:
    """A share as a percentage."""
    return f"{100 * value:.1f} %"


def wilson(share: float, count: int) -> tuple[float, float]:
    """Give the 95 % interval of a share of so many examples (Wilson 1927)."""
    low, high = binomtest(round(share * count), count).proportion_ci(method="wilson")
    return float(low), float(high)
