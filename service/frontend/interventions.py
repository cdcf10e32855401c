"""Interventions on attention, checked against a model and one instance, and made tensors of its row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from bundle.errors import InputError, OutOfRangeError
from bundle.interventions import BoundIntervention
from bundle.rows import Row
from bundle.values import Array
from bundle.wire import data_type_name, data_type_of
from limelight.v1 import model_pb2
from service.frontend.schema import ModelSchema

# Rows of weights may sum to 1 within this: those of a map in float16 do.
_SUM = 2e-3


class Change(Enum):
    """Kinds of interventions, by the names that callers give them."""

    NONE = ""
    HEAD_SCALES = "head_scales"
    WEIGHTS = "weights"
    UNIFORM = "uniform"


@dataclass(frozen=True)
class Intervention:
    """One intervention as it was requested.

    Attributes:
        field: path of it in the request.
        values: factors [head], or weights [head, query, key], of the heads and queries that change; None for others.
        heads, queries: those that change; empty for all. Negative numbers count from the end.
    """

    field: str
    map: str
    change: Change
    values: Array | None = None
    heads: Sequence[int] = ()
    queries: Sequence[int] = ()


def with_interventions(row: Row, interventions: Sequence[Intervention], schema: ModelSchema, steps: int) -> Row:
    """Add the tensors of the interventions to a row.

    Args:
        steps: the most that the row can take; 0 where nothing is generated.

    Raises: InputError naming the field.
    """
    descriptions = {each.name: each for each in schema.maps}
    tensors: dict[str, Array] = {}
    for each in interventions:
        bound = _bound(each, descriptions, schema.interventions)
        description = descriptions[each.map]
        heads = _indices(each.heads, bound.heads, "heads", each)
        if each.change is Change.HEAD_SCALES:
            factors = _factors(each, heads)
            scales = tensors.setdefault(bound.scales, np.ones(bound.heads, np.float32))
            scales[heads] = factors
            continue
        of_steps = bool(schema.steps_label) and description.query_labels == schema.steps_label
        change = _of_steps(each, heads, row, schema, steps) if of_steps else _of_queries(each, heads, row, description)
        _replace(tensors, bound, heads, change)
    return replace(row, tensors={**row.tensors, **tensors})


def intervened_bytes(row: Row, schema: ModelSchema, steps: int) -> int:
    """Bound the bytes that a row with interventions takes beyond another: every map whole, in four tensors.

    Args:
        steps: the most that the row can take.
    """
    total = 0
    for each in schema.maps:
        if each.form == model_pb2.MAP_FORM_DENSE:
            names = (each.query_labels, each.key_labels)
            sizes = (row.labels[name].size if name in row.labels else _most(name, row, schema, steps) for name in names)
            total += 16 * each.heads * max(1, each.features) * int(np.prod([*sizes], dtype=np.int64))
    return total


@dataclass(frozen=True)
class _Rows:
    """Rows of weights that change. count: of the map's rows; weights: [head, query, key], None for uniform ones."""

    queries: Array
    count: int
    weights: Array | None


def _of_queries(asked: Intervention, heads: Array, row: Row, description: model_pb2.MapDescription) -> _Rows:
    """Read a change of a map whose queries are known before the model runs."""
    count = row.labels[description.query_labels].size
    queries = _indices(asked.queries, count, "queries", asked)
    if asked.change is Change.UNIFORM:
        return _Rows(queries, count, None)
    size = row.labels[description.key_labels].size
    return _Rows(queries, count, _weights(asked, (len(heads), len(queries), size)))


def _of_steps(asked: Intervention, heads: Array, row: Row, schema: ModelSchema, steps: int) -> _Rows:
    """Read a change of a map whose queries are output steps. The last of its rows holds for all later steps."""
    for place, each in enumerate(asked.queries):
        if each < 0:
            raise InputError(
                f"{asked.field}.queries[{place}]",
                f"is {each}; steps are counted from the first, as nobody knows yet which is the last",
            )
    queries = _indices(asked.queries, steps, "queries", asked) if asked.queries else np.zeros(1, np.int64)
    count = int(queries.max()) + 2 if asked.queries else 1
    if asked.change is Change.UNIFORM:
        return _Rows(queries, count, None)
    keys = next(each.key_labels for each in schema.maps if each.name == asked.map)
    if keys in row.labels:
        return _Rows(queries, count, _weights(asked, (len(heads), len(queries), row.labels[keys].size)))
    there = schema.first_keys(keys, row) + queries  # the keys of each query
    weights = _weights(asked, (len(heads), len(queries), int(there.max())))
    for place, number in enumerate(there):
        if weights[:, place, number:].any():
            raise InputError(
                f"{asked.field}.weights",
                f"have weight beyond the {number} keys that step {queries[place]} has; set these weights to 0",
            )
    return _Rows(queries, count, weights)


def _replace(tensors: dict[str, Array], bound: BoundIntervention, heads: Array, rows: _Rows) -> None:
    """Add a change to a row's tensors. Of maps of output steps, these get as many rows as the changes need."""
    keys = 0 if rows.weights is None else rows.weights.shape[2]
    given = (bound.uniform, bound.replaced, bound.replacement)
    count = max([rows.count, *(tensors[name].shape[1] for name in given if name in tensors)])
    for name in given if rows.weights is not None or bound.replaced in tensors else given[:1]:
        before = tensors.get(name, np.zeros((bound.heads, 1, 1), np.float32))
        wider = max(before.shape[2], keys) if name == bound.replacement else 1
        grown = np.zeros((bound.heads, count, wider), np.float32)
        grown[:, : before.shape[1], : before.shape[2]] = before
        grown[:, before.shape[1] :, : before.shape[2]] = before[:, -1:]
        tensors[name] = grown
    # A change of every step is one of every row.
    queries = rows.queries if rows.count > 1 or count == 1 else np.arange(count)
    places = np.ix_(heads, queries)
    tensors[bound.uniform][places] = rows.weights is None
    if rows.weights is not None:
        tensors[bound.replaced][places] = 1
        tensors[bound.replacement][places] = 0
        tensors[bound.replacement][:, :, :keys][places] = rows.weights
    elif bound.replaced in tensors:  # weights that an earlier change gave are not read, nor checked
        tensors[bound.replaced][places] = 0
        tensors[bound.replacement][places] = 0


def _most(name: str, row: Row, schema: ModelSchema, steps: int) -> int:
    """Bound the queries or keys of a step."""
    return 1 if name == schema.steps_label else schema.first_keys(name, row) + steps


def _bound(
    asked: Intervention,
    descriptions: Mapping[str, model_pb2.MapDescription],
    bound: Mapping[str, BoundIntervention],
) -> BoundIntervention:
    known = ", ".join(descriptions) or "no maps"
    if asked.map not in descriptions:
        raise InputError(f"{asked.field}.map", f"is {asked.map!r}; the model has {known}")
    if asked.change is Change.NONE:
        raise InputError(asked.field, "has no change; set one of head_scales, weights, uniform")
    if asked.map not in bound:
        others = f"; {', '.join(bound)} of this model take them" if bound else ""
        raise InputError(
            f"{asked.field}.{asked.change.value}",
            f"does not apply to {asked.map}, which takes no interventions{others}",
        )
    if asked.change is Change.HEAD_SCALES and asked.queries:
        raise InputError(f"{asked.field}.queries", "do not go with head_scales, which hold for every query")
    return bound[asked.map]


def _indices(given: Sequence[int], size: int, what: str, asked: Intervention) -> Array:
    if not given:
        return np.arange(size)
    for place, each in enumerate(given):
        if not -size <= each < size:
            raise OutOfRangeError(
                f"{asked.field}.{what}[{place}]", f"is {each}; {asked.map} has {size} {what} for this instance"
            )
    found = np.array(given) % size
    if len(np.unique(found)) < len(found):
        raise InputError(f"{asked.field}.{what}", "name one of them twice")
    return found


def _factors(asked: Intervention, heads: Array) -> Array:
    field = f"{asked.field}.head_scales"
    values = _values(asked, field, heads.shape)
    if not np.isfinite(values).all():
        raise InputError(field, "holds a number that is not finite")
    return values


def _weights(asked: Intervention, shape: tuple[int, int, int]) -> Array:
    field = f"{asked.field}.weights"
    values = _values(asked, field, shape)
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError(field, "holds a number that is negative or not finite")
    sums = values.sum(-1, dtype=np.float64)
    if (wrong := np.argwhere(np.abs(sums - 1) > _SUM)).size:
        head, query = wrong[0]
        raise InputError(field, f"sums to {sums[head, query]:.6g} at [{head}, {query}]; each query's weights sum to 1")
    return values


def _values(asked: Intervention, field: str, shape: tuple[int, ...]) -> Array:
    assert asked.values is not None
    if asked.values.dtype != np.float32 or asked.values.shape != shape:
        found, axes = data_type_name(data_type_of(asked.values)), "head, query, key"[: None if len(shape) > 1 else 4]
        raise InputError(
            field, f"is {found} {list(asked.values.shape)}; for this instance it takes FLOAT32 [{axes}] = {list(shape)}"
        )
    return asked.values
