"""Carries out a plan on one instance's maps, stage by stage."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from limelight_bundle.errors import InputError
from limelight_bundle.maps import VALUES, WEIGHTS, MapWeights
from limelight_bundle.rows import Labels
from limelight_bundle.values import Array
from limelight_service.attention.labels import (
    group_labels,
    key_groups_of,
    key_ranges_of,
    query_groups_of,
    query_ranges_of,
    range_labels,
)
from limelight_service.attention.members import AxisGroups, Indices
from limelight_service.attention.options import GroupReduction, HeadReduction, Options, PoolReduction
from limelight_service.attention.plan import SCORES, AttentionPlan, is_signed, rollout_description
from limelight_service.attention.select import SelectedMap, indices, side_by_side
from limelight_service.engine.attention.encode import encode_dense, encode_edges
from limelight_service.engine.attention.grouping import group_both, group_edges, kept_places, mixes_empty_rows
from limelight_service.engine.attention.heads import Floats, mean_of_scores, reduce_heads
from limelight_service.engine.attention.part import Finished, Part
from limelight_service.engine.attention.pooling import pool, pool_edges, ranges
from limelight_service.engine.attention.rollout import rollout
from limelight_service.engine.attention.topk import top_k, top_k_edges

_MapKey = tuple[str, int]


@dataclass(frozen=True)
class Applied:
    """Maps as they are sent, and the label sets that were made for them (groups and ranges), by name."""

    maps: list[Finished]
    labels: dict[str, Labels]


def apply(
    plan: AttentionPlan, maps: Mapping[_MapKey, MapWeights], labels: Mapping[str, Labels], step: int | None = None
) -> Applied:
    """Select, reduce heads, roll out, group or pool, keep the top k and encode the maps of one instance.

    Returns: the maps in the order of the description, a rollout where the first map stood that it replaces.

    maps: at least those that the plan names. labels: every label set that they refer to.
    step: for the maps of one generated token, its index; their query axis has size 1 and stands for it.
    Raises: InputError where an index that only running the model decides (an output step) is not there.
    """
    options, made = plan.options, dict[str, Labels]()
    parts = []
    for selected in plan.selected:
        part = _cut(selected, maps[selected.description.name, options.quantity], options.quantity, labels, step)
        parts.append(_with_heads_reduced(part, options.reduce_heads))
    finished = []
    for part in _rolled_out(parts, plan):
        if plan.query_groups or plan.key_groups:
            part = _grouped(part, plan, labels, made)
        if options.pool is not None:
            part = _pooled(part, options.pool.size, options.pool.reduction, made)
        if options.top_k:
            part = _with_top_k(part, options.top_k)
        finished.append(_encoded(part, options))
    return Applied(finished, made)


def _cut(
    selected: SelectedMap, whole: MapWeights, quantity: int, labels: Mapping[str, Labels], step: int | None
) -> Part:
    description = selected.description
    weights, has_edges = np.asarray(whole.weights, dtype=np.float32), whole.query_index is not None
    key_count = labels[description.key_labels].size if has_edges else weights.shape[2]
    keys = indices(selected.keys, key_count, f"keys of {description.name}")
    if step is None:
        counted = has_edges or whole.queries is not None
        query_count = labels[description.query_labels].size if counted else weights.shape[1]
        queries = indices(selected.queries, query_count, f"queries of {description.name}")
    else:
        query_count, queries = 1, np.array([step], dtype=np.intp)
    # Where it can be, a part of the weights is a view: it is copied when something is made of it.
    if len(selected.heads) != weights.shape[0]:
        weights = weights[side_by_side(_standing(np.array(selected.heads), whole.heads))]
    if not has_edges and queries is not None and step is None and len(queries) != weights.shape[1]:
        weights = weights[:, side_by_side(_standing(queries, whole.queries))]
    lowest = _lowest(whole.weights.dtype)
    if quantity == SCORES:
        weights = np.maximum(weights, np.float32(lowest))  # some models write minus infinity
    part = Part(
        description=description,
        quantity=quantity,
        normalised=description.normalised and quantity == WEIGHTS,
        signed=is_signed(description, quantity),
        heads=selected.heads,
        head_reduction=HeadReduction.NONE,
        queries=queries,
        keys=None,
        query_labels=description.query_labels,
        key_labels=description.key_labels,
        query_count=query_count if queries is None else len(queries),
        key_count=key_count,
        weights=weights,
        lowest=lowest,
    )
    part = _with_edges(part, whole) if has_edges else part
    return part if keys is None else _with_keys(part, keys)


@lru_cache(maxsize=8)
def _lowest(dtype: np.dtype[Any]) -> float:
    return float(np.finfo(dtype).min)


def _standing(wanted: Array, held: Array | None) -> Array:
    """Tell where some heads or queries stand. held: those that are here; None for all."""
    return wanted if held is None else np.searchsorted(held, wanted)


def _with_edges(part: Part, whole: MapWeights) -> Part:
    assert whole.query_index is not None and whole.key_index is not None
    query, key = np.asarray(whole.query_index, np.int32), np.asarray(whole.key_index, np.int32)
    part = replace(part, query_index=query, key_index=key)
    return part if part.queries is None else _keep(part, np.isin(query, part.queries))


def _with_keys(part: Part, keys: Indices) -> Part:
    """Leave all other keys out."""
    part = replace(part, empty=part.empty_rows(), keys=keys, key_count=len(keys))
    if part.key_index is not None:
        return _keep(part, np.isin(part.key_index, keys))
    return replace(part, weights=part.weights[:, :, side_by_side(keys)])


def _keep(part: Part, edges: npt.NDArray[np.bool_]) -> Part:
    """Leave all other edges out."""
    if edges.all():
        return part
    assert part.query_index is not None and part.key_index is not None
    return replace(
        part, weights=part.weights[:, edges], query_index=part.query_index[edges], key_index=part.key_index[edges]
    )


def _with_heads_reduced(part: Part, reduction: HeadReduction) -> Part:
    if reduction is HeadReduction.NONE:
        return part
    several = len(part.heads) > 1
    normalised = part.normalised and not (several and reduction is HeadReduction.MAX)
    if part.quantity == SCORES and reduction is HeadReduction.MEAN:
        weights = mean_of_scores(part.weights, part.lowest)
    else:
        weights = reduce_heads(part.weights, reduction)
    if normalised and several:
        normalised = _sums_to_1(weights, part) or not mixes_empty_rows(part.empty_rows(), axis=0)
    empty = None if part.empty is None else np.asarray(part.empty.all(axis=0, keepdims=True))
    return replace(part, weights=weights, normalised=normalised, head_reduction=reduction, empty=empty)


def _sums_to_1(mean: Floats, part: Part) -> bool:
    """Tell, by what is left of a map of which every row sums to 1 or 0, that no head's row was empty."""
    if part.has_edges or part.keys is not None or not mean.shape[2]:
        return False
    return bool((mean.sum(axis=2) > 1 - 0.5 / len(part.heads)).all())


def _rolled_out(parts: list[Part], plan: AttentionPlan) -> list[Part]:
    if not plan.stacks:
        return parts
    by_name = {part.description.name: part for part in parts}
    stack_of = {each.description.name: stack for stack, members in plan.stacks.items() for each in members}
    done: set[str] = set()
    result = []
    for part in parts:
        stack = stack_of.get(part.description.name)
        if stack is None:
            result.append(part)
        elif stack not in done:  # the one map stands where the first of those it replaces stood
            done.add(stack)
            members = plan.stacks[stack]
            layers = [by_name[each.description.name].weights for each in members]
            if any(layer.shape[1:] != (part.query_count, part.query_count) for layer in layers):
                raise InputError("attention.rollout", f"needs square maps, which those of {stack} are not")
            reduction = HeadReduction.MAX if part.head_reduction is HeadReduction.MAX else HeadReduction.MEAN
            rolled = replace(
                part,
                description=rollout_description(members),
                heads=tuple(sorted({head for each in members for head in each.heads})),
                head_reduction=reduction,
                normalised=True,
                signed=False,
                weights=rollout(layers),
            )
            result.append(rolled)
    return result


def _grouped(part: Part, plan: AttentionPlan, labels: Mapping[str, Labels], made: dict[str, Labels]) -> Part:
    queries, keys = plan.groups_of(part.description)
    if queries is None and keys is None:
        return part
    of_queries, query_reduction = _places(queries, part.queries, labels)
    of_keys, key_reduction = _places(keys, part.keys, labels)
    if of_keys is not None and part.keys is None:  # of steps, some may not be there yet
        of_keys = [each[: np.searchsorted(each, part.key_count)] for each in of_keys]
    normalised = part.normalised
    if keys is not None:
        partition = part.keys is None and keys.members(labels).is_partition
        normalised = normalised and key_reduction is GroupReduction.SUM and partition
    if normalised and of_queries is not None:
        normalised = query_reduction is GroupReduction.MEAN and not mixes_empty_rows(part.empty_rows(), 1, of_queries)
    if part.has_edges:
        row, column = part.edges()
        shape = (part.query_count, part.key_count)
        weights = group_edges(part.weights, row, column, shape, of_queries, query_reduction, of_keys, key_reduction)
    else:
        weights = group_both(part.weights, of_queries, query_reduction, of_keys, key_reduction)
    part = replace(
        part,
        weights=weights,
        normalised=normalised,
        query_index=None,
        key_index=None,
        query_count=weights.shape[1],
        key_count=weights.shape[2],
    )
    if queries is not None:
        name = query_groups_of(queries.label_set)
        made[name] = group_labels(name, queries.label_set, queries.names)
        part = replace(part, queries=None, query_labels=name)
    if keys is not None:
        name = key_groups_of(keys.label_set)
        made[name] = group_labels(name, keys.label_set, keys.names)
        part = replace(part, keys=None, key_labels=name)
    return part


def _places(
    groups: AxisGroups | None, kept: Indices | None, labels: Mapping[str, Labels]
) -> tuple[list[Indices] | None, GroupReduction]:
    if groups is None:
        return None, GroupReduction.SUM
    return kept_places(groups.members(labels), kept), groups.grouping.reduction


def _pooled(part: Part, most: int, reduction: PoolReduction, made: dict[str, Labels]) -> Part:
    queries, keys = ranges(part.query_count, most), ranges(part.key_count, most)
    shrunk = part.query_count > most, part.key_count > most
    if part.has_edges:
        absent = part.lowest if part.quantity == SCORES else 0.0
        weights = pool_edges(part.weights, *part.edges(), queries, keys, reduction, absent)
    else:
        weights = pool(part.weights, queries, keys, reduction)
    part = replace(
        part,
        weights=weights,
        normalised=part.normalised and not any(shrunk),
        query_index=None,
        key_index=None,
        query_count=weights.shape[1],
        key_count=weights.shape[2],
    )
    if shrunk[0]:
        name = query_ranges_of(part.query_labels)
        made[name] = range_labels(name, part.query_labels, queries)
        part = replace(part, query_labels=name)
    if shrunk[1]:
        name = key_ranges_of(part.key_labels)
        made[name] = range_labels(name, part.key_labels, keys)
        part = replace(part, key_labels=name)
    return part


def _with_top_k(part: Part, k: int) -> Part:
    if part.query_index is not None and part.key_index is not None:
        row, _ = part.edges()
        largest = top_k_edges(part.weights, row, part.key_index, part.query_count, k)
        keys = largest.keys
    else:
        largest = top_k(part.weights, k)
        keys = largest.keys if part.keys is None else part.keys[largest.keys].astype(np.int32)
    rest = largest.rest if part.quantity != SCORES else None  # a sum of scores means nothing
    return replace(part, weights=largest.weights, query_index=None, key_index=keys, left_out=rest)


def _encoded(part: Part, options: Options) -> Finished:
    if part.has_edges:
        row, _ = part.edges()
        return Finished(part, *encode_edges(part.weights, row, part.query_count, options.encoding))
    if part.quantity == VALUES:  # which have no query axis
        return Finished(part, *encode_dense(part.weights[:, 0], options.encoding))
    return Finished(part, *encode_dense(part.weights, options.encoding))
