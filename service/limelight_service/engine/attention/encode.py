"""Weights as FLOAT32, FLOAT16, or UINT8 with one scale a row."""

import math

import numpy as np
import numpy.typing as npt

from limelight_bundle.values import Array
from limelight_service.attention.options import Encoding
from limelight_service.engine.attention.half import as_half
from limelight_service.engine.attention.heads import Floats

_AT_ONCE = 65_536  # numbers: what is written in between stays in the cache
_LARGEST_HALF = np.float32(np.finfo(np.float16).max)
_LARGEST_FINITE = np.finfo(np.float32).max.view(np.uint32)


def encode_dense(weights: Floats, encoding: Encoding) -> tuple[Array, Floats | None]:
    """Encode rectangular weights.

    Shapes: weights [head, query, key, …] -> the same, and for UINT8 scales [head, query].
    UINT8: weight ≈ value × scale, off by at most half a scale. A row of zeros has scale 0. What is not finite, or
    negative, counts as 0.
    """
    if encoding is not Encoding.UINT8:
        return _as_float(weights, encoding), None
    scales = np.zeros(weights.shape[:2], np.float32)
    return _quantise(weights, scales, scaled=False), scales


def encode_edges(
    weights: Floats, row: npt.NDArray[np.integer], rows: int, encoding: Encoding
) -> tuple[Array, Floats | None]:
    """Encode edges; `row` [edge], ascending, says which of `rows` queries an edge belongs to.

    Shapes: weights [head, edge, …] -> the same, and for UINT8 scales [head, rows], 0 for a query without edges.
    """
    if encoding is not Encoding.UINT8:
        return _as_float(weights, encoding), None
    scales = np.zeros((weights.shape[0], rows), dtype=np.float32)
    if weights.shape[1]:
        finite = np.where(np.isfinite(weights), weights, np.float32(0))
        present, starts = np.unique(row, return_index=True)
        largest = np.maximum.reduceat(np.maximum(finite, 0), starts, axis=1)
        scales[:, present] = largest.max(axis=tuple(range(2, weights.ndim))) / np.float32(255)
        weights = finite
    return _quantise(weights, scales[:, row], scaled=True), scales


def _as_float(weights: Floats, encoding: Encoding) -> Array:
    if encoding is Encoding.FLOAT32:
        return weights
    whole = np.ascontiguousarray(weights)
    if whole.view(np.uint32).max(initial=0) > _LARGEST_HALF.view(np.uint32):  # not finite, out of range or negative
        whole = np.clip(whole, -_LARGEST_HALF, _LARGEST_HALF)  # large stays large, not infinite
    return as_half(whole)


def _largest_bits(lines: Floats) -> npt.NDArray[np.uint32]:
    """Give the largest of each line [line, weight], as bits, whose order is that of floats from 0 up.

    Of floats themselves NumPy finds it five times as slowly: it asks each for NaN, and guesses wrong.
    """
    return np.asarray(lines.view(np.uint32).max(axis=1, initial=0))


def _quantise(weights: Floats, scales: Floats, *, scaled: bool) -> npt.NDArray[np.uint8]:
    """Divide each line by its scale and round: weights [head, query or edge, …], scales [head, query or edge].

    scaled: False where the scales are to be written first, from each line's largest weight.
    """
    length = math.prod(weights.shape[2:])
    lines, of_lines = weights.reshape(scales.size, length), scales.reshape(-1)
    values = np.empty(lines.shape, np.uint8)
    at_once = max(1, _AT_ONCE // max(1, length))
    quotients = np.empty((min(at_once, scales.size), length), np.float32)
    for first in range(0, scales.size, at_once):
        some, scale = lines[first : first + at_once], of_lines[first : first + at_once]
        if not scaled:
            largest = _largest_bits(some)
            if largest.max() > _LARGEST_FINITE:  # NaN, infinity or below 0
                some = np.where(np.isfinite(some) & (some > 0), some, np.float32(0))
                largest = _largest_bits(some)
            np.divide(largest.view(np.float32), np.float32(255), out=scale)
        divisors = np.where(scale > 0, scale, np.float32(1)).reshape(-1, 1)
        quotient = np.divide(some, divisors, out=quotients[: len(some)])
        np.rint(quotient, out=quotient)
        np.clip(quotient, np.float32(0), np.float32(255), out=quotient)
        np.copyto(values[first : first + at_once], quotient, casting="unsafe")
    return values.reshape(weights.shape)
