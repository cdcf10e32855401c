"""Shares of attention: the weights on each unit, in the mean over queries, heads and maps, reduced by the engine."""

from collections.abc import Iterable, Sequence

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.values import Array
from limelight_service.attention.options import (
    Group,
    Grouping,
    GroupReduction,
    HeadReduction,
    Options,
    Selection,
)
from limelight_service.attention.select import SelectedMap
from limelight_service.frontend.explaining.units import Units
from limelight_service.ipc.boundary import MapResult

_WHOLE = ((0, 0),)  # the range of all entries


def attended_maps(selected: Iterable[SelectedMap], label_sets: Iterable[str]) -> list[SelectedMap]:
    """Give the selected maps whose weights are shares, on keys of some label sets."""
    known = frozenset(label_sets)
    return [each for each in selected if _has_shares(each.description) and each.description.key_labels in known]


def rolled_maps(maps: Iterable[SelectedMap]) -> list[SelectedMap]:
    """Give those of attended maps that a rollout multiplies."""
    return [each for each in maps if _is_square(each.description)]


def share_options(maps: Sequence[SelectedMap], units: Units, *, rollout: bool) -> Options:
    """Ask for one number a map and unit: the mean over heads and queries of the weights on the unit."""
    keys = {each.description.key_labels: None for each in maps}
    key_groups = [
        Grouping(
            ("units",),
            tuple([Group("", indices=tuple(each.get(name, _NONE).tolist())) for each in units.members]),
            GroupReduction.SUM,
            name,
        )
        for name in keys
    ]
    queries: dict[str, set[int] | None] = {}
    for each in maps:  # of a rollout, whose maps are whole, queries are chosen by their group
        name = each.description.query_labels
        wanted = None if each.queries is None or not rollout else set(each.queries.distinct.tolist())
        known = queries.setdefault(name, wanted)
        queries[name] = None if known is None or wanted is None else known | wanted
    query_groups = [
        Grouping(
            ("selections",),
            (Group("", ranges=_WHOLE) if chosen is None else Group("", indices=tuple(sorted(chosen))),),
            GroupReduction.MEAN,
            name,
        )
        for name, chosen in queries.items()
    ]
    selections = [
        Selection(
            names=(each.description.name,),
            heads=() if len(each.heads) == each.description.heads else tuple(each.heads),
            queries=() if each.queries is None or rollout else tuple(each.queries.distinct.tolist()),
        )
        for each in maps
    ]
    return Options(
        selections=tuple(selections),
        reduce_heads=HeadReduction.MEAN,
        rollout=rollout,
        query_groups=tuple(query_groups),
        key_groups=tuple(key_groups),
    )


def shares(maps: Sequence[MapResult]) -> Array:
    """Average the shares [unit] over maps [head, query, unit] or [head, query, unit, feature] of one head and query."""
    found = [each.weights.astype(np.float64).reshape(*each.weights.shape[2:3], -1).mean(-1) for each in maps]
    return np.asarray(np.mean(found, axis=0))


def _has_shares(description: model_pb2.MapDescription) -> bool:
    return description.normalised and not description.signed


def _is_square(description: model_pb2.MapDescription) -> bool:
    return (
        description.kind == attention_pb2.MAP_KIND_SELF
        and description.query_labels == description.key_labels
        and description.form == model_pb2.MAP_FORM_DENSE
        and not description.features
    )


_NONE = np.empty(0, np.intp)
