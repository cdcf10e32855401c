"""The largest values of rows, in linear time, with one rule for equal ones: the first is the largest."""

import numpy as np
import numpy.typing as npt


def largest_of_rows(values: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.bool_]:
    """Mark the k largest values of each row [..., value]; NaN is smaller than every number."""
    size = values.shape[-1]
    if k >= size:
        return np.ones(values.shape, dtype=bool)
    comparable = np.where(np.isnan(values), values.dtype.type(-np.inf), values)
    # The k-th largest value splits a row in linear time; among those equal to it, count from the first.
    kth = np.partition(comparable, size - k, axis=-1)[..., size - k, np.newaxis]
    above = comparable > kth
    equal = comparable == kth
    missing = k - above.sum(axis=-1, keepdims=True)
    return np.asarray(above | (equal & np.less_equal(equal.cumsum(axis=-1), missing)), dtype=np.bool_)


def best_of_rows(values: npt.NDArray[np.floating], k: int) -> npt.NDArray[np.intp]:
    """Give the places of the k largest values of each row [..., value] -> [..., k], largest first; 0 for all."""
    k = min(k, values.shape[-1]) or values.shape[-1]
    comparable = np.where(np.isnan(values), values.dtype.type(-np.inf), values)
    if k == values.shape[-1]:
        return np.argsort(-comparable, axis=-1, kind="stable")
    places = np.nonzero(largest_of_rows(comparable, k))[-1].reshape(*values.shape[:-1], k)
    order = np.argsort(-np.take_along_axis(comparable, places, axis=-1), axis=-1, kind="stable")
    return np.take_along_axis(places, order, axis=-1)
