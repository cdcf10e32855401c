"""Interventions on attention, checked against a model and one instance, and made tensors of its row."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from limelight.base.counts import counted
from limelight.v1 import model_pb2
from limelight_bundle.errors import InputError, OutOfRangeError, Path
from limelight_bundle.interventions import BoundIntervention, Edges
from limelight_bundle.rows import Labels, Row
from limelight_bundle.values import Array
from limelight_bundle.wire import data_type_name, data_type_of
from limelight_service.attention.members import check_to_come, members
from limelight_service.attention.options import Group
from limelight_service.errors import DeadlineError
from limelight_service.frontend.schema import ModelSchema

# Rows of weights may sum to 1 within this: those of a map in float16 do.
_SUM = 2e-3
_LARGEST_FACTOR = 1_000_000
MOST_INTERVENTIONS = 256  # of an instance; one of a map can name all its heads and queries


class Change(Enum):
    """Kinds of interventions, by the names that callers give them."""

    NONE = ""
    HEAD_SCALES = "head_scales"
    WEIGHTS = "weights"
    UNIFORM = "uniform"
    KEY_FACTOR = "key_factor"


@dataclass(frozen=True)
class KeyFactor:
    """A factor of the weights on some keys; then all weights of a query are multiplied so that their sum stays."""

    factor: float
    keys: Group


@dataclass(frozen=True)
class Intervention:
    """One intervention as it was requested.

    Attributes:
        field: path of it in the request.
        values: factors [head], or weights [head, query, key], of the heads and queries that change; None for others.
        heads, queries: those that change; empty for all. Negative numbers count from the end.
        key_factor: of a change by a factor.
    """

    field: Path
    map: str
    change: Change
    values: Array | None = None
    heads: Sequence[int] = ()
    queries: Sequence[int] = ()
    key_factor: KeyFactor | None = None


@dataclass
class _MapChanges:
    """The interventions on one map, in the order of the request. scales [head], None where nothing scales.

    edges: of a map of edges; and what they have where some change, [head, edge] each, by the names of the inputs.
    """

    bound: BoundIntervention
    edges: Edges | None = None
    scales: Array | None = None
    rows: list["_Rows"] = field(default_factory=list)
    factors: list["_Factors"] = field(default_factory=list)
    of_edges: dict[str, Array] = field(default_factory=dict)


def with_interventions(
    row: Row, interventions: Sequence[Intervention], schema: ModelSchema, steps: int, deadline: float | None = None
) -> Row:
    """Add the tensors of the interventions to a row.

    Args:
        steps: the most that the row can take; 0 where nothing is generated.
        deadline: by `time.monotonic`.

    Raises: InputError naming the field; DeadlineError.
    """
    descriptions = {each.name: each for each in schema.maps}
    changes: dict[str, _MapChanges] = {}
    for each in interventions:
        _check_deadline(deadline)
        bound = _bound(each, descriptions, schema.interventions)
        description = descriptions[each.map]
        heads = _indices(each.heads, bound.heads, "heads", each)
        if each.map not in changes:
            changes[each.map] = _MapChanges(bound, bound.edges_of(row))
        of_map = changes[each.map]
        if each.change is Change.HEAD_SCALES:
            factors = _factors(each, heads)
            if of_map.scales is None:
                of_map.scales = np.ones(bound.heads, np.float32)
            of_map.scales[heads] = factors
            continue
        if of_map.edges is not None:
            _change_edges(of_map, of_map.edges, each, heads, row)
            continue
        of_steps = bool(schema.steps_label) and description.query_labels == schema.steps_label
        if each.change is Change.KEY_FACTOR:
            of_map.factors.append(_multiplied(each, heads, row, schema, description, steps, of_steps=of_steps))
        elif of_steps:
            of_map.rows.append(_of_steps(each, heads, row, schema, description, steps))
        else:
            of_map.rows.append(_of_queries(each, heads, row, description))
    tensors: dict[str, Array] = {}
    for of_map in changes.values():
        _check_deadline(deadline)
        if of_map.scales is not None and of_map.bound.edges and of_map.edges is not None:
            of_map.of_edges[of_map.bound.scales] = of_map.scales[:, np.newaxis].repeat(len(of_map.edges.query), axis=1)
        elif of_map.scales is not None:
            tensors[of_map.bound.scales] = of_map.scales
        if of_map.edges is not None:
            tensors |= _edge_tensors(of_map, of_map.edges)
        if of_map.rows:
            tensors |= _replaced(of_map.bound, of_map.rows)
        if of_map.factors:
            tensors[of_map.bound.key_factors] = _factored(of_map.bound.heads, of_map.factors, deadline)
    return replace(row, tensors={**row.tensors, **tensors})


def given_bytes(row: Row, interventions: Sequence[Intervention], schema: ModelSchema, steps: int) -> int:
    """Bound the bytes of the tensors that `with_interventions` adds: each map whose weights are given, or multiplied.

    Args:
        steps: the most that the row can take.
    """
    edges = {
        each.map: bound
        for each in interventions
        if (bound := schema.interventions.get(each.map)) is not None and bound.is_of_edges
    }
    given = {each.map for each in interventions if each.change is Change.WEIGHTS}
    multiplied: dict[str, tuple[bool, bool]] = {}  # whether single heads and queries are
    for one in interventions:
        if one.change is Change.KEY_FACTOR:
            heads, places = multiplied.get(one.map, (False, False))
            multiplied[one.map] = heads or bool(one.heads), places or bool(one.queries)
    total = 0
    for each in schema.maps:
        if each.name in edges:
            total += 20 * each.heads * edges[each.name].places(row)
        elif each.name not in given and each.name not in multiplied:
            continue
        queries, keys = _most_of(each, row, schema, steps)
        # The queries of changed steps are not among the row's labels.
        queries = queries if each.query_labels in row.labels else steps + 1
        if each.name in given:
            total += 4 * each.heads * queries * keys
        if each.name in multiplied:
            heads, places = multiplied[each.name]
            total += 4 * (each.heads if heads else 1) * (queries if places else 1) * keys
    return total


def intervened_bytes(row: Row, schema: ModelSchema, steps: int) -> int:
    """Bound the bytes that a row with interventions takes beyond another: every map whole, in six tensors.

    Args:
        steps: the most that the row can take.
    """
    total = 0
    for each in schema.maps:
        bound = schema.interventions.get(each.name)
        if bound is not None and bound.is_of_edges:
            total += 24 * each.heads * bound.places(row)
        elif each.form == model_pb2.MAP_FORM_DENSE:
            queries, keys = _most_of(each, row, schema, steps)
            total += 24 * each.heads * max(1, each.features) * queries * keys
    return total


@dataclass(frozen=True)
class _Rows:
    """Rows of weights that change. count: of the map's rows; weights: [head, query, key], None for uniform ones."""

    heads: Array
    queries: Array
    count: int
    weights: Array | None


@dataclass(frozen=True)
class _Factors:
    """Keys whose weights are multiplied. heads, queries: None for all. count: of the map's rows, 1 where all change."""

    heads: Array | None
    queries: Array | None
    count: int
    keys: Array
    factor: float


def _of_queries(asked: Intervention, heads: Array, row: Row, description: model_pb2.MapDescription) -> _Rows:
    """Read a change of a map whose queries are known before the model runs."""
    count = row.labels[description.query_labels].size
    queries = _indices(asked.queries, count, "queries", asked)
    if asked.change is Change.UNIFORM:
        return _Rows(heads, queries, count, None)
    size = row.labels[description.key_labels].size
    return _Rows(heads, queries, count, _weights(asked, (len(heads), len(queries), size)))


def _of_steps(
    asked: Intervention,
    heads: Array,
    row: Row,
    schema: ModelSchema,
    description: model_pb2.MapDescription,
    steps: int,
) -> _Rows:
    """Read a change of a map whose queries are output steps. The last of its rows holds for all later steps."""
    queries, count = _steps(asked, steps) if asked.queries else (np.zeros(1, np.int64), 1)
    if asked.change is Change.UNIFORM:
        return _Rows(heads, queries, count, None)
    keys = description.key_labels
    if keys in row.labels:
        return _Rows(heads, queries, count, _weights(asked, (len(heads), len(queries), row.labels[keys].size)))
    there = schema.first_keys(keys, row) + queries  # the keys of each query
    weights = _weights(asked, (len(heads), len(queries), int(there.max())))
    for place, number in enumerate(there):
        if weights[:, place, number:].any():
            raise InputError(
                (*asked.field, "weights"),
                f"have weight beyond the {counted(number, 'key')} that step {queries[place]} has; set these "
                "weights to 0",
            )
    return _Rows(heads, queries, count, weights)


def _change_edges(of_map: _MapChanges, edges: Edges, asked: Intervention, heads: Array, row: Row) -> None:
    """Read a change of a map of edges: of those of the queries that it names, and for a factor of the keys as well."""
    bound, queries = of_map.bound, _indices(asked.queries, row.labels[of_map.bound.query_labels].size, "queries", asked)
    chosen = np.isin(edges.query, queries) if asked.queries else np.ones(len(edges.query), dtype=bool)

    def change(name: str, values: Array | float) -> None:
        shape = bound.heads, len(edges.query)
        array = of_map.of_edges.setdefault(name, np.full(shape, bound.default(name), np.float32))
        array[np.ix_(heads, chosen)] = values

    if asked.change is Change.KEY_FACTOR:
        factor, keys = _key_factor(asked, of_map.bound.key_labels, row.labels)
        chosen &= np.isin(edges.key, keys)
        before = of_map.of_edges.get(bound.key_factors)
        change(bound.key_factors, factor if before is None else _product(before[np.ix_(heads, chosen)], factor))
        return
    if asked.change is Change.WEIGHTS:
        change(bound.replacement, _weights(asked, (len(heads), int(chosen.sum())), edges.query[chosen]))
    change(bound.replaced, asked.change is Change.WEIGHTS)
    change(bound.uniform, asked.change is Change.UNIFORM)


def _edge_tensors(of_map: _MapChanges, edges: Edges) -> dict[str, Array]:
    """Make the tensors of a map of edges."""
    bound = of_map.bound
    made = {name: edges.tensor(each, bound.default(name)) for name, each in of_map.of_edges.items()}
    if bound.nested:  # a query's weights are replaced, whatever keys it has
        made |= {name: made[name].max(-1, keepdims=True) for name in (bound.replaced, bound.uniform) if name in made}
    return made


def _steps(asked: Intervention, steps: int) -> tuple[Array, int]:
    """Read the steps that change, and count those up to one that does not."""
    for place, each in enumerate(asked.queries):
        if each < 0:
            raise InputError(
                (*asked.field, "queries", place),
                f"is {each}; steps are counted from the first, as nobody knows yet which is the last",
            )
    queries = _indices(asked.queries, steps, "queries", asked)
    return queries, int(queries.max()) + 2


def _multiplied(
    asked: Intervention,
    heads: Array,
    row: Row,
    schema: ModelSchema,
    description: model_pb2.MapDescription,
    steps: int,
    *,
    of_steps: bool,
) -> _Factors:
    """Read a change that multiplies the weights on some keys."""
    queries, count = None, 1
    if asked.queries and of_steps:
        queries, count = _steps(asked, steps)
    elif asked.queries:
        count = row.labels[description.query_labels].size
        queries = _indices(asked.queries, count, "queries", asked)
    name, to_come = description.key_labels, description.key_labels not in row.labels
    labels = {name: schema.labels_to_come(name, row, steps)} if to_come else row.labels
    factor, keys = _key_factor(asked, name, labels, to_come=to_come)
    return _Factors(heads if asked.heads else None, queries, count, keys, factor)


def _key_factor(
    asked: Intervention, label_set: str, labels: Mapping[str, Labels], *, to_come: bool = False
) -> tuple[float, Array]:
    """Read a factor and its keys. to_come: the keys are steps, of which not all are known yet."""
    assert asked.key_factor is not None
    field, factor, group = (*asked.field, "key_factor"), asked.key_factor.factor, asked.key_factor.keys
    if not 0 <= factor <= _LARGEST_FACTOR:
        raise InputError((*field, "factor"), f"is {factor:g}; it is a number from 0 to {_LARGEST_FACTOR:,}")
    if to_come:
        check_to_come(group, labels[label_set], (*field, "keys"))
    return factor, members(group, label_set, labels, (*field, "keys"))


def _factored(heads: int, changes: Sequence[_Factors], deadline: float | None) -> Array:
    """Make the factors of a map [head, query, key]; one head or query stands for all."""
    heads = heads if any(each.heads is not None for each in changes) else 1
    count = max(each.count for each in changes)
    factors = np.ones((heads, count, 1 + max(int(each.keys.max()) for each in changes)), np.float32)
    for each in changes:
        _check_deadline(deadline)
        of_heads = np.arange(heads) if each.heads is None else each.heads
        of_queries = np.arange(count) if each.queries is None else each.queries
        places = np.ix_(of_heads, of_queries, each.keys)
        factors[places] = _product(factors[places], each.factor)
    return factors


def _product(factors: Array, factor: float) -> Array:
    return np.minimum(factors * np.float32(factor), _LARGEST_FACTOR)


def _replaced(bound: BoundIntervention, changes: Sequence[_Rows]) -> dict[str, Array]:
    """Make the tensors of a map whose weights change. A later change replaces an earlier one of the same rows.

    Each row of weights is written once, so that the time does not grow with the changes times the size of the map.
    """
    count = max(each.count for each in changes)
    last = np.full((bound.heads, count), -1)  # the change that holds, by head and query
    # A change of every step is one of every row.
    queries = [each.queries if each.count > 1 or count == 1 else np.arange(count) for each in changes]
    for number, (each, of) in enumerate(zip(changes, queries, strict=True)):
        last[np.ix_(each.heads, of)] = number
    is_given = np.array([each.weights is not None for each in changes])
    holds = (last >= 0)[..., np.newaxis]
    given = holds & is_given[last][..., np.newaxis]
    made = {bound.uniform: (holds & ~given).astype(np.float32)}
    held = np.unique(last[given[..., 0]])
    if held.size:
        keys = max(each.weights.shape[2] for each in changes if each.weights is not None)
        replacement = np.zeros((bound.heads, count, keys), np.float32)
        for number in held:
            each, of = changes[number], queries[number]
            assert each.weights is not None
            heads, places = np.nonzero(last[np.ix_(each.heads, of)] == number)
            of_query = places if each.weights.shape[1] > 1 else np.zeros_like(places)
            replacement[each.heads[heads], of[places], : each.weights.shape[2]] = each.weights[heads, of_query]
        made |= {bound.replaced: given.astype(np.float32), bound.replacement: replacement}
    return made


def _check_deadline(deadline: float | None) -> None:
    if deadline is not None and deadline <= time.monotonic():
        raise DeadlineError("the deadline passed before the instances were prepared")


def _most_of(each: model_pb2.MapDescription, row: Row, schema: ModelSchema, steps: int) -> tuple[int, int]:
    """Bound the queries and the keys of a map, of output steps those of one step."""
    queries, keys = (
        row.labels[name].size if name in row.labels else _most(name, row, schema, steps)
        for name in (each.query_labels, each.key_labels)
    )
    return queries, keys


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
        raise InputError((*asked.field, "map"), f"is {asked.map!r}; the model has {known}")
    if asked.change is Change.NONE:
        raise InputError(asked.field, "has no change; set one of head_scales, weights, uniform, key_factor")
    if asked.map not in bound:
        reason = descriptions[asked.map].no_interventions
        reason = f": {reason}" if reason else ""
        others = f"; {', '.join(bound)} of this model take them" if bound else ""
        raise InputError(
            (*asked.field, asked.change.value),
            f"does not apply to {asked.map}, which takes no interventions{reason}{others}",
        )
    if asked.change is Change.KEY_FACTOR and not descriptions[asked.map].normalised:
        raise InputError(
            (*asked.field, "key_factor"), f"does not apply to {asked.map}, whose weights of a query have no fixed sum"
        )
    if asked.change is Change.HEAD_SCALES and asked.queries:
        raise InputError((*asked.field, "queries"), "do not go with head_scales, which hold for every query")
    return bound[asked.map]


def _indices(given: Sequence[int], size: int, what: str, asked: Intervention) -> Array:
    if not given:
        return np.arange(size)
    if len(given) > size:
        raise InputError((*asked.field, what), f"name {len(given)}; {asked.map} has {size} {what} for this instance")
    for place, each in enumerate(given):
        if not -size <= each < size:
            raise OutOfRangeError(
                (*asked.field, what, place), f"is {each}; {asked.map} has {size} {what} for this instance"
            )
    found = np.array(given) % size
    if len(np.unique(found)) < len(found):
        raise InputError((*asked.field, what), "name one of them twice")
    return found


def _factors(asked: Intervention, heads: Array) -> Array:
    field = (*asked.field, "head_scales")
    values = _values(asked, field, heads.shape)
    if not np.isfinite(values).all():
        raise InputError(field, "holds a number that is not finite")
    return values


def _weights(asked: Intervention, shape: tuple[int, ...], queries: Array | None = None) -> Array:
    """Read weights. queries: of edges, those to which they belong, ascending."""
    field = (*asked.field, "weights")
    values = _values(asked, field, shape)
    if not np.isfinite(values).all() or (values < 0).any():
        raise InputError(field, "holds a number that is negative or not finite")
    if queries is None:
        sums = values.sum(-1, dtype=np.float64)
    else:
        starts = np.flatnonzero(np.diff(queries, prepend=-1))
        sums = np.add.reduceat(values, starts, axis=-1, dtype=np.float64) if starts.size else np.ones((1, 1))
    if (wrong := np.argwhere(np.abs(sums - 1) > _SUM)).size:
        head, query = wrong[0]
        raise InputError(field, f"sums to {sums[head, query]:.6g} at [{head}, {query}]; each query's weights sum to 1")
    return values


def _values(asked: Intervention, field: Path, shape: tuple[int, ...]) -> Array:
    assert asked.values is not None
    if asked.values.dtype != np.float32 or asked.values.shape != shape:
        found = data_type_name(data_type_of(asked.values))
        axes = ("head", "head, edge", "head, query, key")[len(shape) - 1]
        raise InputError(
            field, f"is {found} {list(asked.values.shape)}; for this instance it takes FLOAT32 [{axes}] = {list(shape)}"
        )
    return asked.values
