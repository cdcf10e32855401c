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


def with_interventions(row: Row, interventions: Sequence[Intervention], schema: ModelSchema) -> Row:
    """Add the tensors of the interventions to a row.

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
        count = row.labels[description.query_labels].size
        size = row.labels[description.key_labels].size
        queries = _indices(each.queries, count, "queries", each)
        places = np.ix_(heads, queries)
        rows = (bound.heads, count, 1)
        uniform = tensors.setdefault(bound.uniform, np.zeros(rows, np.float32))
        uniform[places] = each.change is Change.UNIFORM
        if each.change is Change.WEIGHTS:
            weights = _weights(each, (len(heads), len(queries), size))
            tensors.setdefault(bound.replaced, np.zeros(rows, np.float32))[places] = 1
            tensors.setdefault(bound.replacement, np.zeros((*rows[:2], size), np.float32))[places] = weights
        elif bound.replaced in tensors:  # weights that an earlier change gave are not read, nor checked
            tensors[bound.replaced][places] = 0
            tensors[bound.replacement][places] = 0
    return replace(row, tensors={**row.tensors, **tensors})


def intervened_bytes(row: Row, schema: ModelSchema) -> int:
    """Bound the bytes that a row with interventions takes beyond another: every map whole, in four tensors."""
    total = 0
    for each in schema.maps:
        if each.form == model_pb2.MAP_FORM_DENSE:
            sizes = (row.labels[name].size for name in (each.query_labels, each.key_labels))
            total += 16 * each.heads * max(1, each.features) * int(np.prod([*sizes], dtype=np.int64))
    return total


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
