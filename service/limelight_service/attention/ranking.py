"""The largest values of rows, in linear time, with one rule for equal ones: the first is the largest."""

import numpy as np
import numpy.typing as npt

_SHORT = 1024


def largest_of_rows(values: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.bool_]:
    """Mark the k largest values of each row [..., value]; NaN is smaller than every number."""
    size = values.shape[-1]
    if k >= size:
        return np.ones(values.shape, dtype=bool)
    # The k-th largest value splits a row. Short rows are sorted sooner than they are split.
    last = (np.sort(values) if size <= _SHORT else np.partition(values, size - k))[..., size - k :]
    if np.isnan(last).any():
        return largest_of_rows(np.where(np.isnan(values), values.dtype.type(-np.inf), values), k)
    kth = last[..., :1]
    marked = np.asarray(values >= kth)
    if np.count_nonzero(marked) > k * (marked.size // size):
        tied = np.count_nonzero(marked, axis=-1) > k
        marked[tied] = _first_of_equals(values[tied], kth[tied], k)
    return marked


def _first_of_equals(values: npt.NDArray[np.floating], kth: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.bool_]:
    """Mark k values of each row [row, value]: all above the k-th largest [row, 1], and the first that equal it."""
    above, equal = values > kth, values == kth
    missing = k - np.count_nonzero(above, axis=-1, keepdims=True)
    return np.asarray(above | (equal & (equal.cumsum(axis=-1, dtype=np.int32) <= missing)), dtype=np.bool_)


def best_of_rows(values: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.intp]:
    """Give the places of the k largest values of each row [..., value] -> [..., k], largest first; 0 for all."""
    k = min(k, values.shape[-1]) or values.shape[-1]
    comparable = np.where(np.isnan(values), values.dtype.type(-np.inf), values)
    if k == values.shape[-1]:
        return np.argsort(-comparable, axis=-1, kind="stable")
    places = np.nonzero(largest_of_rows(comparable, k))[-1].reshape(*values.shape[:-1], k)
    order = np.argsort(-np.take_along_axis(comparable, places, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(places, order, axis=-1)
