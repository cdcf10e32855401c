"""Weights as FLOAT32, FLOAT16, or UINT8 with one scale a row."""

import numpy as np
import numpy.typing as npt

from bundle.values import Array
from service.attention.heads import Floats
from service.attention.options import Encoding

_LARGEST_HALF = float(np.finfo(np.float16).max)


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
    return _quantise(weights, scales.reshape(scales.shape + (1,) * len(rest))), scales


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
    of_edges = scales[:, row]
    return _quantise(weights, of_edges.reshape(of_edges.shape + (1,) * (weights.ndim - 2))), scales


def _as_float(weights: Floats, encoding: Encoding) -> Array:
    if encoding is Encoding.FLOAT32:
        return weights
    return np.clip(weights, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)  # large stays large, not infinite


def _quantise(weights: Floats, scales: Floats) -> npt.NDArray[np.uint8]:
    values = weights / np.where(scales > 0, scales, np.float32(1))
    np.rint(values, out=values)
    return np.clip(values, 0, 255, out=values).astype(np.uint8)
