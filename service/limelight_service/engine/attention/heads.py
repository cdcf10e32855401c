"""Arithmetic over heads."""

import numpy as np
import numpy.typing as npt

from limelight_service.attention.options import HeadReduction

Floats = npt.NDArray[np.float32]


def reduce_heads(weights: Floats, reduction: HeadReduction) -> Floats:
    """Reduce the head axis, which stays with size 1: weights [head, …] -> [1, …]."""
    if reduction is HeadReduction.MEAN:
        total: Floats = weights.sum(axis=0, keepdims=True)
        total *= np.float32(1 / len(weights))
        return total
    if reduction is HeadReduction.MAX:
        return np.asarray(weights.max(axis=0, keepdims=True))
    return weights


def mean_of_scores(scores: Floats, lowest: float) -> Floats:
    """Take the mean over those heads that may attend to a place; `lowest` stands where none may.

    lowest: what stands for a place where no attention is possible. Shapes: scores [head, …] -> [1, …].
    """
    possible = scores > lowest
    count = possible.sum(axis=0, keepdims=True)
    total = np.where(possible, scores, 0).sum(axis=0, keepdims=True, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), lowest).astype(np.float32)
