"""Arithmetic on weights and on distributions of answers."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]


def normalised_entropy(weights: NDArray[np.floating], present: NDArray[np.bool_]) -> Array:
    """Return the entropy of each row as a part of that of equal weights: 0 for one key, 1 for all alike.

    Args:
        weights: [..., key], not negative; each row is divided by its sum.
        present: bool, as `weights`: the keys that a row has.
    Returns:
        [...]; NaN for a row with fewer than two keys, or without weight.
    """
    some = np.where(present, weights, 0.0).astype(np.float64)
    sums, counts = some.sum(-1, keepdims=True), present.sum(-1)
    shares = np.divide(some, sums, out=np.zeros_like(some), where=sums > 0)
    entropy = special.entr(shares).sum(-1)
    whole = np.log(np.maximum(counts, 2))
    return np.where((counts > 1) & (sums[..., 0] > 0), entropy / whole, np.nan)


def total_variation(first: Array, second: Array) -> float:
    """Return half the sum of absolute differences of two distributions: 0 for equal ones, 1 for disjoint ones."""
    return float(np.abs(np.asarray(first) - np.asarray(second)).sum() / 2)


def jensen_shannon(first: NDArray[np.floating], second: NDArray[np.floating]) -> Array:
    """Return the Jensen-Shannon divergence of rows in bits (Lin 1991): [..., key] twice to [...], from 0 to 1."""
    one, other = np.asarray(first, np.float64), np.asarray(second, np.float64)
    middle = (one + other) / 2
    nats = special.rel_entr(one, middle) + special.rel_entr(other, middle)
    return np.asarray(nats.sum(-1) / (2 * np.log(2)))


def permuted(
    weights: NDArray[np.floating], allowed: NDArray[np.bool_], chance: np.random.Generator
) -> NDArray[np.float32]:
    """Permute the weights of each row among the keys to which it may attend.

    Args:
        weights, allowed: [head, query, key].
    """
    return _reordered(weights, allowed, lambda found: chance.permutation(len(found)))


def reversed_order(weights: NDArray[np.floating], allowed: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Give the smallest weight of each row to the key that had the largest, and so on.

    Args:
        weights, allowed: [head, query, key].
    """

    def order(found: NDArray[np.floating]) -> NDArray[np.int64]:
        ascending = np.argsort(found, kind="stable")
        places = np.empty_like(ascending)
        places[ascending] = ascending[::-1]
        return places

    return _reordered(weights, allowed, order)


def _reordered(
    weights: NDArray[np.floating],
    allowed: NDArray[np.bool_],
    order: Callable[[NDArray[np.floating]], NDArray[np.int64]],
) -> NDArray[np.float32]:
    changed = np.zeros(weights.shape, np.float32)
    for place in np.ndindex(*weights.shape[:-1]):
        keys = np.flatnonzero(allowed[place])
        found = weights[place][keys]
        changed[place][keys] = found[order(found)]
    return changed
