"""Carries out a plan on one instance's weights."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bundle.errors import InputError
from bundle.maps import MapWeights
from bundle.values import Array
from limelight.v1 import model_pb2
from service.attention.encode import encode_dense, encode_edges
from service.attention.options import HeadReduction
from service.attention.plan import Plan, rollout_description
from service.attention.reduce import Floats, reduce_heads, rollout
from service.attention.select import Chosen, indices
from service.attention.topk import top_k, top_k_edges

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Finished:
    """A map as it is sent (`AttentionMap` on the wire).

    heads: indices of the heads that are here; empty after a reduction. queries, keys: None for all of them.
    weights: [head, query, key, …], or [head, edge] with both indices [edge]. scales: [head, query] for UINT8.
    """

    description: model_pb2.MapDescription
    heads: tuple[int, ...]
    queries: Indices | None
    keys: Indices | None
    weights: Array
    scales: Floats | None = None
    query_index: Array | None = None
    key_index: Array | None = None


@dataclass(frozen=True)
class _Part:
    """A map between two steps; `queries` counts those of a map of edges too, whose weights do not show it."""

    description: model_pb2.MapDescription
    heads: tuple[int, ...]
    queries: Indices | None
    keys: Indices | None
    query_count: int
    weights: Floats
    edges: MapWeights | None = None


def apply(
    plan: Plan, maps: Mapping[str, MapWeights], sizes: Mapping[str, int], step: int | None = None
) -> list[Finished]:
    """Select, reduce heads, roll out, keep the top k and encode the maps of one instance.

    Returns: the maps in the order of the description, a rollout where the first map stood that it replaces.

    maps: at least those that the plan names. sizes: of every label set that they refer to.
    step: for the maps of one generated token, its index; their query axis has size 1 and stands for it.
    Raises: InputError where an index that only running the model decides (an output step) is not there.
    """
    parts = []
    for chosen in plan.chosen:
        part = _cut(chosen, maps[chosen.description.name], sizes, step)
        parts.append(_reduced(part, plan.options.reduce_heads))
    return [_finish(part, plan) for part in _rolled_out(parts, plan)]


def _cut(chosen: Chosen, whole: MapWeights, sizes: Mapping[str, int], step: int | None) -> _Part:
    description = chosen.description
    weights = np.asarray(whole.weights, dtype=np.float32)
    key_count = weights.shape[2] if whole.query_index is None else sizes[description.key_labels]
    keys = indices(chosen.keys, key_count, f"keys of {description.name}")
    if len(chosen.heads) != weights.shape[0]:
        weights = weights[list(chosen.heads)]
    if step is not None:
        queries: Indices | None = np.array([step], dtype=np.intp)
        query_count = 1
    else:
        query_count = weights.shape[1] if whole.query_index is None else sizes[description.query_labels]
        queries = indices(chosen.queries, query_count, f"queries of {description.name}")
    part = _Part(description, chosen.heads, queries, keys, query_count, weights)
    return _cut_dense(part, step) if whole.query_index is None else _cut_edges(part, whole)


def _cut_dense(part: _Part, step: int | None) -> _Part:
    weights, queries, keys = part.weights, part.queries, part.keys
    if queries is not None and step is None:
        weights = weights[:, queries]
    if keys is not None:
        weights = weights[:, :, keys]
    return replace(part, weights=weights, query_count=weights.shape[1])


def _cut_edges(part: _Part, whole: MapWeights) -> _Part:
    assert whole.query_index is not None and whole.key_index is not None
    edges = replace(whole, weights=part.weights)
    if part.queries is not None or part.keys is not None:
        keep = np.ones(len(whole.query_index), dtype=bool)
        if part.queries is not None:
            keep &= np.isin(whole.query_index, part.queries)
        if part.keys is not None:
            keep &= np.isin(whole.key_index, part.keys)
        edges = MapWeights(part.weights[:, keep], whole.query_index[keep], whole.key_index[keep])
    count = part.query_count if part.queries is None else len(part.queries)
    return replace(part, query_count=count, edges=edges, weights=np.asarray(edges.weights, dtype=np.float32))


def _reduced(part: _Part, reduction: HeadReduction) -> _Part:
    if reduction is HeadReduction.NONE:
        return part
    weights = reduce_heads(part.weights, reduction)
    edges = None if part.edges is None else replace(part.edges, weights=weights)
    description = part.description
    if reduction is HeadReduction.MAX and description.normalised and len(part.heads) > 1:
        description = model_pb2.MapDescription()
        description.CopyFrom(part.description)
        description.normalised = False  # the largest of several rows do not sum to 1
    return replace(part, description=description, heads=(), weights=weights, edges=edges)


def _rolled_out(parts: list[_Part], plan: Plan) -> list[_Part]:
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
            result.append(replace(part, description=rollout_description(members), heads=(), weights=rollout(layers)))
    return result


def _finish(part: _Part, plan: Plan) -> Finished:
    options = plan.options
    edges = part.edges
    if options.top_k:
        if edges is not None:
            edges = top_k_edges(edges, options.top_k)
        else:
            weights, query, key = top_k(part.weights, options.top_k)
            query = query if part.queries is None else part.queries[query].astype(np.int32)
            key = key if part.keys is None else part.keys[key].astype(np.int32)
            edges = MapWeights(weights, query, key)
    if edges is None:
        encoded, scales = encode_dense(part.weights, options.encoding)
        return Finished(part.description, part.heads, part.queries, part.keys, encoded, scales)
    assert edges.query_index is not None
    query_index = np.asarray(edges.query_index, dtype=np.int32)
    row = query_index if part.queries is None else np.searchsorted(part.queries, query_index)
    weights = np.asarray(edges.weights, dtype=np.float32)
    encoded, scales = encode_edges(weights, row, part.query_count, options.encoding)
    return Finished(
        part.description, part.heads, part.queries, part.keys, encoded, scales, query_index, edges.key_index
    )
