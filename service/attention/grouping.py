"""Sums and means over groups of keys or queries. A feature axis behind the others stays as it is."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from service.attention.heads import Floats
from service.attention.members import Indices, Members
from service.attention.options import GroupReduction

Places = Sequence[Indices]


def kept_places(members: Members, kept: Indices | None) -> list[Indices]:
    """Give the place of each group's members among the entries that a selection kept (ascending; None for all)."""
    if kept is None:
        return list(members.groups)
    return [np.flatnonzero(np.isin(kept, group, assume_unique=True)) for group in members.groups]


def group_axis(weights: Floats, axis: int, groups: Places, reduction: GroupReduction) -> Floats:
    """Take the members of each group together: the axis then has one place a group. An empty group is 0.

    Shapes: weights [head, query, key, …], axis 1 or 2.
    """
    shape = list(weights.shape)
    shape[axis] = len(groups)
    result = np.zeros(shape, dtype=np.float32)
    for place, group in enumerate(groups):
        if not len(group):
            continue
        part = weights[_along(axis, _slice_of(group))]
        result[_along(axis, place)] = part.sum(axis=axis, dtype=np.float64) / _divisor(group, reduction)
    return result


def group_both(
    weights: Floats,
    queries: Places | None,
    query_reduction: GroupReduction,
    keys: Places | None,
    key_reduction: GroupReduction,
) -> Floats:
    """Group a rectangle's queries, its keys, or both; what is held in between is never larger than both ends."""
    of_queries = (1, queries, query_reduction)
    of_keys = (2, keys, key_reduction)
    keys_first = queries is None or (keys is not None and len(keys) <= weights.shape[2])
    for axis, groups, reduction in (of_keys, of_queries) if keys_first else (of_queries, of_keys):
        if groups is not None:
            weights = group_axis(weights, axis, groups, reduction)
    return weights


def group_edges(
    weights: Floats,
    query: Indices,
    key: Indices,
    shape: tuple[int, int],
    queries: Places | None,
    query_reduction: GroupReduction,
    keys: Places | None,
    key_reduction: GroupReduction,
) -> Floats:
    """Group a map of edges, which becomes a rectangle. A missing edge counts as 0.

    Shapes: weights [head, edge, …], query, key [edge] among `shape` queries and keys -> [head, query, key, …].
    """
    columns: list[Floats] = []
    if keys is not None:
        for column in _columns(weights, query, key, shape[0], shape[1], keys, key_reduction):
            part = column[:, :, np.newaxis]
            columns.append(part if queries is None else group_axis(part, 1, queries, query_reduction))
        return np.concatenate(columns, axis=2)
    assert queries is not None
    for row in _columns(weights, key, query, shape[1], shape[0], queries, query_reduction):
        columns.append(row[:, np.newaxis])
    return np.concatenate(columns, axis=1)


def mixes_empty_rows(empty: npt.NDArray[np.bool_], axis: int, groups: Places | None = None) -> bool:
    """Tell whether rows that attend to nothing are taken together with rows that do not: their mean does not sum to 1.

    empty: [head, query, …]. groups: of queries; None where all of the axis is taken together.
    """
    if groups is None:
        return bool((empty.any(axis=axis) != empty.all(axis=axis)).any())
    parts = (np.take(empty, group, axis=axis) for group in groups if len(group))
    return any(mixes_empty_rows(part, axis) for part in parts)


def _columns(
    weights: Floats,
    row: Indices,
    column: Indices,
    rows: int,
    size: int,
    groups: Places,
    reduction: GroupReduction,
) -> Iterator[Floats]:
    """Give for each group of columns the sum (or mean) of its edges in each row: [head, row, …]."""
    heads, rest = weights.shape[0], weights.shape[2:]
    features = prod(rest)
    lines = np.moveaxis(weights.reshape(heads, len(row), features), 2, 1).reshape(heads * features, len(row))
    for group in groups:
        member = np.zeros(size, dtype=bool)
        member[group] = True
        edges = np.flatnonzero(member[column])
        own = row[edges]
        sums = np.stack([np.bincount(own, line[edges], rows) for line in lines]) / _divisor(group, reduction)
        yield np.moveaxis(sums.reshape(heads, features, rows), 1, 2).reshape(heads, rows, *rest).astype(np.float32)


def _divisor(group: Indices, reduction: GroupReduction) -> int:
    return max(1, len(group)) if reduction is GroupReduction.MEAN else 1


def _slice_of(group: Indices) -> slice | Indices:
    """Give a slice where the members stand side by side: nothing is copied then."""
    first, last = int(group[0]), int(group[-1])
    return slice(first, last + 1) if last - first + 1 == len(group) else group


def _along(axis: int, index: int | slice | Indices) -> tuple[int | slice | Indices, ...]:
    return (*(slice(None),) * axis, index)
