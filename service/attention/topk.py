"""The largest weights of each row, as edges, and the sum of what is left out."""

import numpy as np
import numpy.typing as npt

from service.attention.heads import Floats
from service.ranking import largest_of_rows

Integers = npt.NDArray[np.int32]


def top_k(weights: Floats, k: int) -> tuple[Floats, Integers, Integers, Floats]:
    """Keep, for each query, the union over heads of each head's k best keys; of equal weights the lowest key is best.

    Shapes: weights [head, query, key] -> weights [head, edge], query [edge], key [edge], in order of query, then key,
    and left out [head, query], the sum of each row's other weights. NaN is smaller than every number.
    """
    kept = largest_of_rows(weights, k).any(axis=0)
    query, key = np.nonzero(kept)
    left_out = np.where(kept, np.float32(0), weights).sum(axis=2, dtype=np.float64).astype(np.float32)
    return weights[:, query, key], query.astype(np.int32), key.astype(np.int32), left_out


def top_k_edges(weights: Floats, row: npt.NDArray[np.intp], rows: int, k: int) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Do the same to a map of edges: a row is all edges of one query.

    Shapes: weights [head, edge], row [edge], ascending, below `rows` -> which edges are kept [edge], left out
    [head, rows].
    """
    starts = np.searchsorted(row, row)  # where each edge's row begins
    rank = np.arange(len(row)) - starts
    kept = np.zeros(len(row), dtype=bool)
    for of_head in np.where(np.isnan(weights), np.float32(-np.inf), weights):
        # Stable, so of equal weights the first edge, which has the lowest key, ranks first.
        order = np.lexsort((-of_head, row))
        kept[order[rank < k]] = True
    left_out = [np.bincount(row[~kept], of_head[~kept], rows) for of_head in weights]
    return kept, np.array(left_out, dtype=np.float32).reshape(len(weights), rows)
