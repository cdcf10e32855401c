"""Sums and means over groups of keys or queries. A feature axis behind the others stays as it is."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np
import numpy.typing as npt

from limelight_service.attention.members import Indices, Members
from limelight_service.attention.options import GroupReduction
from limelight_service.attention.select import side_by_side
from limelight_service.engine.attention.heads import Floats

Places = Sequence[Indices]
_MOST_AT_ONCE = 4_000_000  # numbers
_SMALL_MATRIX = 2**18  # numbers: 1 MiB


def kept_places(members: Members, kept: Indices | None) -> list[Indices]:
    """Give the place of each group's members among the entries that a selection kept (ascending; None for all)."""
    if kept is None:
        return list(members.groups)
    return [np.flatnonzero(np.isin(kept, group, assume_unique=True)) for group in members.groups]


def group_axis(weights: Floats, axis: int, groups: Places, reduction: GroupReduction) -> Floats:
    """Take the members of each group together: the axis then has one place a group. An empty group is 0.

    Shapes: weights [head, query, key, …], axis 1 or 2.
    """
    if weights.ndim == 3 and weights.shape[axis] * len(groups) <= _SMALL_MATRIX:
        result = _multiplied(weights, axis, groups, reduction)
        if np.isfinite(result).all():  # or else what is not finite has spread to groups that it is no member of
            return result
    shape = list(weights.shape)
    shape[axis] = len(groups)
    result = np.zeros(shape, dtype=np.float32)
    for place, group in enumerate(groups):
        if not len(group):
            continue
        part = weights[_along(axis, side_by_side(group))]
        result[_along(axis, place)] = part.sum(axis=axis, dtype=np.float64) / _divisor(group, reduction)
    return result


def _multiplied(weights: Floats, axis: int, groups: Places, reduction: GroupReduction) -> Floats:
    """Take the members of each group together by a product of matrices, several times as fast as one by one."""
    member = np.zeros((weights.shape[axis], len(groups)), np.float32)
    for place, group in enumerate(groups):
        if len(group):
            member[group, place] = 1 / _divisor(group, reduction)
    with np.errstate(all="ignore"):
        found = weights @ member if axis == 2 else member.T @ weights
    return np.asarray(found, np.float32)


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
    if keys is None:
        assert queries is not None
        rows = list(_chunks(weights, key, query, shape[1], shape[0], queries, query_reduction))
        return np.swapaxes(np.concatenate(rows, axis=2), 1, 2)
    columns = _chunks(weights, query, key, shape[0], shape[1], keys, key_reduction)
    if queries is not None:
        columns = (group_axis(chunk, 1, queries, query_reduction) for chunk in columns)
    return np.concatenate(list(columns), axis=2)


def mixes_empty_rows(empty: npt.NDArray[np.bool_], axis: int, groups: Places | None = None) -> bool:
    """Tell whether rows that attend to nothing are taken together with rows that do not: their mean does not sum to 1.

    empty: [head, query, …]. groups: of queries; None where all of the axis is taken together.
    """
    if groups is None:
        return bool((empty.any(axis=axis) != empty.all(axis=axis)).any())
    parts = (np.take(empty, group, axis=axis) for group in groups if len(group))
    return any(mixes_empty_rows(part, axis) for part in parts)


def _chunks(
    weights: Floats,
    row: Indices,
    column: Indices,
    rows: int,
    size: int,
    groups: Places,
    reduction: GroupReduction,
) -> Iterator[Floats]:
    """Group the `size` columns of a map of edges, some groups at a time: [head, row, group, …].

    Never is much more held at once than the edges, however many rows there are.
    """
    heads, rest = weights.shape[0], weights.shape[2:]
    features = prod(rest)
    lines = np.moveaxis(weights.reshape(heads, len(row), features), 2, 1).reshape(heads * features, len(row))
    at_once = max(1, _MOST_AT_ONCE // max(1, rows * len(lines)))
    for first in range(0, len(groups), at_once):
        chunk = groups[first : first + at_once]
        edges = [_edges_of(group, column, size) for group in chunk]
        cell = np.concatenate([row[own] * len(chunk) + place for place, own in enumerate(edges)])
        every = np.concatenate(edges)
        sums = np.stack([np.bincount(cell, line[every], rows * len(chunk)) for line in lines])
        shaped = sums.reshape(heads, features, rows, len(chunk)) / [_divisor(group, reduction) for group in chunk]
        yield np.moveaxis(shaped, 1, 3).reshape(heads, rows, len(chunk), *rest).astype(np.float32)


def _edges_of(group: Indices, column: Indices, size: int) -> Indices:
    """Find the edges whose column is a member of a group."""
    member = np.zeros(size, dtype=bool)
    member[group] = True
    return np.flatnonzero(member[column])


def _divisor(group: Indices, reduction: GroupReduction) -> int:
    return max(1, len(group)) if reduction is GroupReduction.MEAN else 1


def _along(axis: int, index: int | slice | Indices) -> tuple[int | slice | Indices, ...]:
    return (*(slice(None),) * axis, index)
