"""Weights as FLOAT32, FLOAT16, or UINT8 with one scale a row."""

import math

import numpy as np
import numpy.typing as npt

from bundle.values import Array
from service.attention.heads import Floats
from service.attention.options import Encoding

_LARGEST_HALF = float(np.finfo(np.float16).max)
_AT_ONCE = 65_536  # numbers: what is written in between stays in the cache
_EXPONENT = np.uint32(0x7F80_0000)
_SMALLEST_NORMAL = np.uint32((127 - 14) << 23)  # as bits, 2^-14: below it halves are as far apart as there
_TEN_BITS_LEFT = np.uint32(13 << 23)  # 2^13 times so much ends where a half's fraction does
_BIAS = np.uint32((127 - 14 + 13) << 10)


def encode_dense(weights: Floats, encoding: Encoding) -> tuple[Array, Floats | None]:
    """Encode rectangular weights.

    Shapes: weights [head, query, key, …] -> the same, and for UINT8 scales [head, query].
    UINT8: weight ≈ value × scale, off by at most half a scale. A row of zeros has scale 0. What is not finite, or
    negative, counts as 0.
    """
    if encoding is not Encoding.UINT8:
        return _as_float(weights, encoding), None
    rest = tuple(range(2, weights.ndim))
    largest = weights.max(axis=rest, initial=0.0)  # NaN and infinity show here, so most answers need no second look
    if not np.isfinite(largest).all():
        weights = np.where(np.isfinite(weights), weights, np.float32(0))
        largest = weights.max(axis=rest, initial=0.0)
    scales = (largest / np.float32(255)).astype(np.float32)
    return _quantise(weights, scales), scales


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
    return _quantise(weights, scales[:, row]), scales


def _as_float(weights: Floats, encoding: Encoding) -> Array:
    if encoding is Encoding.FLOAT32:
        return weights
    if weights.min(initial=0.0) >= 0 and weights.max(initial=0.0) <= _LARGEST_HALF:
        return _as_half(weights)
    return np.clip(weights, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)  # large stays large, not infinite


def _as_half(weights: Floats) -> Array:
    """Round to the nearest half, of two the even one: what NumPy does too, in a half to a fortieth of its time.

    The weights are finite, in a half's range and not negative. NumPy takes them one by one, and longest over what is
    below 2^-14, which most weights of a long row are. Here the sum of a weight and 2^13 times its power of two rounds
    it where a half ends; what it has more than that power, in units of its last place, is the half's fraction.
    """
    flat = np.ascontiguousarray(weights).reshape(-1)
    halves = np.empty(flat.shape, np.uint16)
    powers, sums = np.empty((2, min(_AT_ONCE, flat.size)), np.uint32)
    for first in range(0, flat.size, _AT_ONCE):
        some = flat[first : first + _AT_ONCE]
        power, total = powers[: some.size], sums[: some.size]
        np.bitwise_and(some.view(np.uint32), _EXPONENT, out=power)
        np.maximum(power, _SMALLEST_NORMAL, out=power)
        power += _TEN_BITS_LEFT
        np.add(some, power.view(np.float32), out=total.view(np.float32))
        total -= power
        power >>= np.uint32(13)
        total += power
        total -= _BIAS
        halves[first : first + _AT_ONCE] = total
    return halves.view(np.float16).reshape(weights.shape)


def _quantise(weights: Floats, scales: Floats) -> npt.NDArray[np.uint8]:
    """Divide each line by its scale and round: weights [head, query or edge, …], scales [head, query or edge]."""
    length = math.prod(weights.shape[2:])
    lines = weights.reshape(scales.size, length)
    divisors = np.where(scales > 0, scales, np.float32(1)).reshape(-1, 1)
    values = np.empty(lines.shape, np.uint8)
    at_once = max(1, _AT_ONCE // max(1, length))
    quotients = np.empty((min(at_once, scales.size), length), np.float32)
    for first in range(0, scales.size, at_once):
        some = lines[first : first + at_once]
        quotient = np.divide(some, divisors[first : first + at_once], out=quotients[: len(some)])
        np.rint(quotient, out=quotient)
        np.maximum(quotient, 0, out=quotient)
        np.minimum(quotient, 255, out=quotient)
        np.copyto(values[first : first + at_once], quotient, casting="unsafe")
    return values.reshape(weights.shape)
