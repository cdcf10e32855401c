"""Values by row, and the figures that come of them."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limelight.evaluation.statistics import RESAMPLES, interval, mean_interval, rank_correlation

FEWER_RESAMPLES = 200  # of statistics that take milliseconds


@dataclass(frozen=True)
class Figure:
    """A figure over rows. `low` and `high` bound its 95 % bootstrap interval; None where it has none."""

    measure: str
    """Name of the measure."""
    subject: str
    """A map, `map:head`, a stack; empty for the model."""
    name: str
    value: float
    low: float | None
    high: float | None
    rows: int
    """Number of rows that have the figure."""


@dataclass(frozen=True)
class Curve:
    """Points (x, y) in order; x: the share of masked heads."""

    measure: str
    name: str
    points: tuple[tuple[float, float], ...]


class Samples:
    """Collects a value for each measure, subject, name and row."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str, str], dict[int, float]] = {}

    def add(self, measure: str, subject: str, name: str, row: int, value: float) -> None:
        """Add the value of a row; NaN, for a row that has none, is left out."""
        if not math.isnan(value):
            self._values.setdefault((measure, subject, name), {})[row] = value

    def rows(self, measure: str, subject: str, name: str) -> dict[int, float]:
        """Return the values by row."""
        return self._values.get((measure, subject, name), {})

    def subjects(self, measure: str, name: str) -> list[str]:
        """Return the subjects that have a value of a name, in the order in which they came."""
        return [key[1] for key in self._values if key[0] == measure and key[2] == name]

    def means(self, measure: str) -> list[Figure]:
        """Return the mean over rows of each value of a measure."""
        found = []
        for (its, subject, name), values in self._values.items():
            if its == measure:
                array = np.array(list(values.values()))
                found.append(mean_figure(measure, subject, name, array))
        return found

    def correlation(self, subject: str, name: str, first: tuple[str, str, str], second: tuple[str, str, str]) -> Figure:
        """Return the rank correlation over the rows that have both values; keys are (measure, subject, name)."""
        one, other = self.rows(*first), self.rows(*second)
        both = [row for row in one if row in other]
        mine, theirs = np.array([one[row] for row in both]), np.array([other[row] for row in both])
        return figure(first[0], subject, name, len(both), lambda at: rank_correlation(mine[at], theirs[at]))


def mean_figure(measure: str, subject: str, name: str, values: NDArray[np.float64]) -> Figure:
    """Return the mean of values, one a row."""
    low, high = map(_or_none, mean_interval(values).tolist())
    return Figure(measure, subject, name, float(values.mean()), low, high, len(values))


def figure(
    measure: str,
    subject: str,
    name: str,
    rows: int,
    statistic: Callable[[NDArray[np.int64]], float],
    *,
    resamples: int = RESAMPLES,
) -> Figure:
    """Return a statistic of the indices of rows, with its interval."""
    value = statistic(np.arange(rows)) if rows else math.nan
    low, high = map(_or_none, interval(rows, statistic, resamples=resamples).tolist())
    return Figure(measure, subject, name, value, low, high, rows)


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


def defined(figures: Iterable[Figure]) -> list[Figure]:
    """Return the figures that have a value."""
    return [each for each in figures if not math.isnan(each.value)]
