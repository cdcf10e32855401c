"""The largest weights of each row, the keys that they are at, and the sum of what is left out."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limelight_service.attention.ranking import largest_of_rows
from limelight_service.engine.attention.heads import Floats

NO_KEY = -1


@dataclass(frozen=True)
class Largest:
    """The k largest weights of each row, in order of key; of equal ones those of the lowest keys. NaN is smaller than
    every number.

    Shapes: weights, keys [head, query, place]; rest [head, query], the sum of what was left out. A row that has fewer
    weights is filled up with zeros at `NO_KEY`.
    """

    weights: Floats
    keys: npt.NDArray[np.int32]
    rest: Floats


def top_k(weights: Floats, k: int) -> Largest:
    """Keep the largest of each row of weights [head, query, key], which has min(k, keys) places."""
    heads, queries, size = weights.shape
    shape = (heads, queries, min(k, size))
    kept = np.flatnonzero(largest_of_rows(weights, k))
    rest = weights.copy().reshape(-1)
    here = rest.take(kept).reshape(shape)
    rest[kept] = 0
    of_row = kept.reshape(heads * queries, shape[2])
    keys = of_row - np.arange(heads * queries, dtype=np.intp)[:, np.newaxis] * size
    sums = np.einsum("hqk->hq", rest.reshape(weights.shape))
    return Largest(here, keys.astype(np.int32).reshape(shape), sums)


def top_k_edges(weights: Floats, row: npt.NDArray[np.intp], key: npt.NDArray[np.int32], rows: int, k: int) -> Largest:
    """Do the same to a map of edges: a row is all edges of one query, and has min(k, edges of the longest) places.

    Shapes: weights [head, edge], row [edge] of `rows`, ascending, key [edge], ascending in each row.
    """
    heads, sizes = len(weights), np.bincount(row, minlength=rows)
    rank = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = np.zeros(weights.shape, bool)
    for of_head, marks in zip(np.where(np.isnan(weights), np.float32(-np.inf), weights), kept, strict=True):
        # Stable, so of equal weights the first edge, which has the lowest key, ranks first.
        marks[np.lexsort((-of_head, row))[rank < k]] = True
    shape = (heads, rows, min(k, int(sizes.max(initial=0))))
    there = np.broadcast_to(np.arange(shape[2]) < sizes[:, np.newaxis], shape)
    here, keys = np.zeros(shape, np.float32), np.full(shape, NO_KEY, np.int32)
    here[there] = weights[kept]  # both in order of head, row and key
    keys[there] = np.broadcast_to(key, weights.shape)[kept]
    left = np.where(kept, np.float32(0), weights)
    sums = [np.bincount(row, of_head, rows) for of_head in left]
    return Largest(here, keys, np.array(sums, np.float32).reshape(heads, rows))
