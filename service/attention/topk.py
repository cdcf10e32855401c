"""The largest weights of each row, as edges."""

import numpy as np
import numpy.typing as npt

from bundle.maps import MapWeights
from service.attention.reduce import Floats

Integers = npt.NDArray[np.int32]


def top_k(weights: Floats, k: int) -> tuple[Floats, Integers, Integers]:
    """Keep, for each query, the union over heads of each head's k best keys; of equal weights the lowest key is best.

    Shapes: weights [head, query, key] -> weights [head, edge], query [edge], key [edge], in order of query, then key.
    NaN is smaller than every number.
    """
    query, key = np.nonzero(_best(weights, k).any(axis=0))
    return weights[:, query, key], query.astype(np.int32), key.astype(np.int32)


def top_k_edges(edges: MapWeights, k: int) -> MapWeights:
    """Do the same to a map of edges: a row is all edges of one query.

    Shapes: weights [head, edge] -> [head, fewer edges].
    """
    assert edges.query_index is not None and edges.key_index is not None
    weights = np.asarray(edges.weights, dtype=np.float32)
    query = np.asarray(edges.query_index)
    count = len(query)
    starts = np.searchsorted(query, query)  # where each edge's row begins: edges are in order of query
    rank = np.arange(count) - starts
    keep = np.zeros(count, dtype=bool)
    for of_head in _comparable(weights):
        # Stable, so of equal weights the first edge, which has the lowest key, ranks first.
        order = np.lexsort((-of_head, query))
        keep[order[rank < k]] = True
    return MapWeights(weights[:, keep], edges.query_index[keep], edges.key_index[keep])


def _best(weights: Floats, k: int) -> npt.NDArray[np.bool_]:
    keys = weights.shape[-1]
    if k >= keys:
        return np.ones(weights.shape, dtype=bool)
    comparable = _comparable(weights)
    # The k-th largest value splits a row in linear time; among those equal to it, count from the lowest key.
    kth = np.partition(comparable, keys - k, axis=-1)[..., keys - k, np.newaxis]
    above = comparable > kth
    equal = comparable == kth
    missing = k - above.sum(axis=-1, keepdims=True)
    first = np.less_equal(equal.cumsum(axis=-1), missing)
    return np.asarray(above | (equal & first), dtype=np.bool_)


def _comparable(weights: Floats) -> Floats:
    return np.where(np.isnan(weights), np.float32(-np.inf), weights)
