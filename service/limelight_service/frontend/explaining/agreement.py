"""Agreement of two ways on the order of units."""

from dataclasses import dataclass

import numpy as np

from limelight_bundle.values import Array
from limelight_service.frontend.explaining.asked import Way

_QUANTILE = 1.959963984540054  # of the standard normal distribution, at 0.975


@dataclass(frozen=True)
class Agreement:
    """Spearman's correlation of two ways, None where there is none, and the ends of its 95 % interval, likewise."""

    first: Way
    second: Way
    correlation: float | None = None
    low: float | None = None
    high: float | None = None


def agreement(first: Way, second: Way, one: Array, other: Array) -> Agreement:
    """Compare the values [unit] of two ways: of LOOK_AWAY and ERASE the losses, which are the negated changes.

    The interval is that of Bonett and Wright (2000, eq. 5): tanh(atanh(r) ± 1.96 √((1 + r²/2) / (n - 3))).
    """
    losses = [
        -values if way in (Way.LOOK_AWAY, Way.ERASE) else values for way, values in ((first, one), (second, other))
    ]
    ranks = [_ranks(each) for each in losses]
    if len(one) < 3 or any(np.ptp(each) == 0 for each in ranks):
        return Agreement(first, second)
    correlation = float(np.clip(np.corrcoef(ranks[0], ranks[1])[0, 1], -1, 1))
    if len(one) < 4:
        return Agreement(first, second, correlation)
    with np.errstate(divide="ignore"):  # of a correlation of 1, whose interval is 1
        middle = np.arctanh(correlation)
    width = _QUANTILE * np.sqrt((1 + correlation**2 / 2) / (len(one) - 3))
    low, high = np.tanh([middle - width, middle + width]).tolist()
    return Agreement(first, second, correlation, low, high)


def _ranks(values: Array) -> Array:
    """Rank values from 1; equal ones share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse])
