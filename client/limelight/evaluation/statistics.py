"""Rank statistics and bootstrap intervals."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

RESAMPLES = 1000
SEED = 0  # of the resamples, so that a report repeats

Floats = NDArray[np.float64]


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Return Spearman's rank correlation, from -1 to 1; NaN if either side is constant or has fewer than two values."""
    one, other = stats.rankdata(first), stats.rankdata(second)
    if len(one) == len(other) and (not len(one) or not np.ptp(one) or not np.ptp(other)):
        return float("nan")
    return float(np.corrcoef(one, other)[0, 1])


def average_precision(scores: ArrayLike, relevant: ArrayLike) -> float:
    """Return the area under the precision-recall curve as a sum over steps of recall; NaN if nothing is relevant.

    Equal scores are one step, so that constant scores have the share of what is relevant.

    Args:
        scores: [entry], larger for what is looked at more.
        relevant: bool [entry].
    """
    values, marks = np.asarray(scores, np.float64), np.asarray(relevant, np.bool_)
    if not marks.any():
        return float("nan")
    order = np.argsort(-values, kind="stable")
    values, marks = values[order], marks[order]
    ends = np.flatnonzero(np.r_[values[1:] != values[:-1], True])
    hits = np.cumsum(marks)[ends]
    precision, recall = hits / (ends + 1), hits / marks.sum()
    return float((np.diff(recall, prepend=0.0) * precision).sum())


def interval(count: int, statistic: Callable[[NDArray[np.int64]], float], *, resamples: int = RESAMPLES) -> Floats:
    """Return the 2.5 and 97.5 percentiles of a statistic over resampled rows (Efron 1979).

    Args:
        count: number of rows.
        statistic: of the indices of rows, which may repeat; resamples for which it is NaN are left out.
    Returns:
        [2]; NaN with fewer than two rows, or if the statistic is never defined.
    """
    if count < 2:
        return np.full(2, np.nan)
    chance = np.random.default_rng(SEED)
    drawn = np.array([statistic(chance.integers(0, count, count)) for _ in range(resamples)])
    drawn = drawn[~np.isnan(drawn)]
    return np.percentile(drawn, [2.5, 97.5]) if len(drawn) else np.full(2, np.nan)


def mean_interval(values: Floats) -> Floats:
    """Return the interval of a mean, as `interval` does: [row] to [2]."""
    count = len(values)
    if count < 2:
        return np.full(2, np.nan)
    drawn = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    return np.asarray(np.percentile(values[drawn].mean(1), [2.5, 97.5]), np.float64)
