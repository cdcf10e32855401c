"""Small pictures of large maps: both axes cut into ranges, and one number for each cell of two ranges."""

import numpy as np

from limelight_service.attention.members import Indices
from limelight_service.attention.options import PoolReduction
from limelight_service.engine.attention.heads import Floats


def ranges(size: int, most: int) -> Indices:
    """Cut an axis into at most `most` ranges whose lengths differ by at most 1.

    Returns: where each range begins, and behind them where the last one ends: [range + 1].
    """
    count = min(size, most)
    return np.arange(count + 1, dtype=np.intp) * size // max(1, count)


def pool(weights: Floats, queries: Indices, keys: Indices, reduction: PoolReduction) -> Floats:
    """Pool a rectangle; queries, keys: what `ranges` gives.

    Shapes: weights [head, query, key, …] -> [head, query range, key range, …].
    """
    for axis, bounds in ((1, queries), (2, keys)):
        lengths = np.diff(bounds)
        if (lengths == 1).all():  # also where there is nothing at all along the axis
            continue
        # Whole slices at a time, the first entries of all ranges, then the second ones: ranges are nearly equally long.
        take_in = np.maximum if reduction is PoolReduction.MAX else np.add
        shortest = int(lengths.min())
        pooled = _taken(weights, bounds[:-1], axis)
        for place in range(1, shortest):
            take_in(pooled, _taken(weights, bounds[:-1] + place, axis), out=pooled)
        longer = np.flatnonzero(lengths > shortest)
        if len(longer):
            ranges_first = np.moveaxis(pooled, axis, 0)
            rest = np.moveaxis(_taken(weights, bounds[longer] + shortest, axis), axis, 0)
            ranges_first[longer] = take_in(ranges_first[longer], rest)
        if reduction is PoolReduction.MEAN:
            pooled /= lengths.astype(np.float32).reshape(-1, *(1,) * (weights.ndim - axis - 1))
        weights = pooled
    return weights


def _taken(weights: Floats, places: Indices, axis: int) -> Floats:
    taken: Floats = weights.take(places, axis=axis)
    return taken


def pool_edges(
    weights: Floats,
    query: Indices,
    key: Indices,
    queries: Indices,
    keys: Indices,
    reduction: PoolReduction,
    absent: float,
) -> Floats:
    """Pool a map of edges, which becomes a rectangle.

    Shapes: weights [head, edge, …], query, key [edge] -> [head, query range, key range, …].
    absent: what a missing edge counts as; it is 0 for a mean.
    """
    shape = (len(queries) - 1, len(keys) - 1)
    row = np.searchsorted(queries, query, side="right") - 1
    column = np.searchsorted(keys, key, side="right") - 1
    cell = row * shape[1] + column
    result = np.full((weights.shape[0], shape[0] * shape[1], *weights.shape[2:]), absent, dtype=np.float32)
    area = np.outer(np.diff(queries), np.diff(keys)).ravel()
    if len(cell):
        order = np.argsort(cell, kind="stable")
        present, starts, counts = np.unique(cell[order], return_index=True, return_counts=True)
        in_order = weights[:, order]
        if reduction is PoolReduction.MAX:
            found = np.maximum.reduceat(in_order, starts, axis=1)
            full = (counts == area[present]).reshape(1, -1, *(1,) * (weights.ndim - 2))
            result[:, present] = np.where(full, found, np.maximum(found, np.float32(absent)))
        else:
            sums = np.add.reduceat(in_order, starts, axis=1, dtype=np.float64)
            result[:, present] = sums / area[present].reshape(1, -1, *(1,) * (weights.ndim - 2))
    return result.reshape(weights.shape[0], *shape, *weights.shape[2:])
