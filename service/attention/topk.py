"""The largest weights of each row, as edges, and the sum of what is left out."""

import numpy as np
import numpy.typing as npt

from service.attention.heads import Floats
from service.ranking import largest_of_rows

Flags = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int32]


def top_k(weights: Floats, k: int) -> tuple[Floats, Integers, Integers, Flags]:
    """Keep, for each query, the union over heads of each head's k best keys; of equal weights the lowest key is best.

    Shapes: weights [head, query, key] -> weights [head, edge], query [edge], key [edge], in order of query, then key,
    and what is kept [query, key]. NaN is smaller than every number.
    """
    kept: Flags = np.any(largest_of_rows(weights, k), axis=0)
    places = np.flatnonzero(kept)
    query, key = np.divmod(places.astype(np.int32), np.int32(max(1, weights.shape[2])))
    return weights.reshape(len(weights), -1).take(places, axis=1), query, key, kept


def left_out(weights: Floats, kept: Flags) -> Floats:
    """Sum what is left out of each row: weights [head, query, key], kept [query, key] -> [head, query]."""
    sums = np.einsum("hqk,qk->hq", weights, (~kept).astype(np.float32))
    if not np.isfinite(sums).all():  # NaN times nothing is NaN
        sums = np.where(kept, np.float32(0), weights).sum(axis=2)
    return np.asarray(sums, dtype=np.float32)


def top_k_edges(weights: Floats, row: npt.NDArray[np.intp], k: int) -> Flags:
    """Do the same to a map of edges: a row is all edges of one query.

    Shapes: weights [head, edge], row [edge], ascending -> which edges are kept [edge].
    """
    starts = np.searchsorted(row, row)  # where each edge's row begins
    rank = np.arange(len(row)) - starts
    kept = np.zeros(len(row), dtype=bool)
    for of_head in np.where(np.isnan(weights), np.float32(-np.inf), weights):
        # Stable, so of equal weights the first edge, which has the lowest key, ranks first.
        order = np.lexsort((-of_head, row))
        kept[order[rank < k]] = True
    return kept


def left_out_edges(weights: Floats, row: npt.NDArray[np.intp], rows: int, kept: Flags) -> Floats:
    """Sum what is left out of each row: weights [head, edge], row, kept [edge] -> [head, rows]."""
    sums = [np.bincount(row[~kept], of_head[~kept], rows) for of_head in weights]
    return np.array(sums, dtype=np.float32).reshape(len(weights), rows)
