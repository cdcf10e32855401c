"""What the figures of a run are: shares with their intervals, and others."""

from collections.abc import Mapping
from typing import Any

from scipy.stats import binomtest

Record = Mapping[str, Any]
WEIGHT, ERRORS = "weight on the right place", "alignment error rate"  # of where a model looks
DISTANCE, FORECAST = "Fréchet distance", "mean absolute error"
POINTS = ("bleu", DISTANCE, FORECAST)  # no shares
_COUNTED = ("accuracy", "exact match", "drawn as asked")  # of all held-out examples, each right or wrong


def is_made(run: Mapping[str, Any]) -> bool:
    """Whether a run's data are made here, or come with a package, and are not files."""
    return " --data ../" not in run["command"]


def data_of(run: Mapping[str, Any]) -> str:
    """Name a run's data, and how many examples of them it learned from where not from all."""
    data = run["data"]
    return f"{data['name']}, {data['examples']:,} to learn from" if data.get("examples") else str(data["name"])


def is_share(metric: Mapping[str, Any]) -> bool:
    """Whether a figure is the share of the held-out examples that are right."""
    return metric["name"] in _COUNTED


def wilson(share: float, count: int) -> tuple[float, float]:
    """Give the 95 % interval of a share of so many examples (Wilson 1927)."""
    low, high = binomtest(round(share * count), count).proportion_ci(method="wilson")
    return float(low), float(high)
