"""The plan of a call's maps, checked once for the whole call before anything runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.errors import InputError, Path
from limelight_bundle.maps import VALUES, WEIGHTS, MapPart
from limelight_bundle.rows import Labels
from limelight_service.attention.members import AxisGroups
from limelight_service.attention.options import Encoding, Grouping, HeadReduction, Options, PoolReduction
from limelight_service.attention.select import SelectedMap, indices, quantity_name, select_maps

SCORES = attention_pb2.QUANTITY_SCORES


@dataclass(frozen=True)
class AttentionPlan:
    """The maps to compute, and what becomes of them.

    stacks: for a rollout, the maps of each stack that it replaces, first layer first; empty without.
    query_groups, key_groups: by the label set that they are of.
    """

    selected: tuple[SelectedMap, ...]
    options: Options
    stacks: Mapping[str, tuple[SelectedMap, ...]]
    query_groups: Mapping[str, AxisGroups]
    key_groups: Mapping[str, AxisGroups]

    @cached_property
    def keys(self) -> frozenset[tuple[str, int]]:
        """The maps to compute, by name and quantity."""
        return frozenset((each.description.name, self.options.quantity) for each in self.selected)

    def sends_halves_of(self, selected: SelectedMap) -> bool:
        """Tell whether a map's weights are sent as FLOAT16 with nothing computed from them: whoever has them may round
        them before. (Whether a row attends to anything is computed, where keys are left out.)
        """
        options = self.options
        if options.encoding is not Encoding.FLOAT16 or options.quantity != WEIGHTS:
            return False
        return not (
            options.reduce_heads is not HeadReduction.NONE
            or options.rollout
            or options.pool is not None
            or options.top_k > 0
            or any(self.groups_of(selected.description))
            or selected.keys is not None
        )

    def groups_of(self, description: model_pb2.MapDescription) -> tuple[AxisGroups | None, AxisGroups | None]:
        """Give the groups of a map's queries and keys; None where an axis stays."""
        return self.query_groups.get(description.query_labels), self.key_groups.get(description.key_labels)


def plan_attention(
    maps: Sequence[model_pb2.MapDescription], options: Options, field: Path = ("attention",)
) -> AttentionPlan:
    """Find the maps that the options select, and check that what is to be done with them can be.

    Raises: InputError naming the field that cannot be met, and why.
    """
    selected = select_maps(maps, options.selections, options.quantity, field)
    if options.quantity == SCORES:
        _check_scores(options, field)
    if options.quantity == VALUES:
        _check_values(options, field)
        selected = tuple(replace(each, description=_of_values(each.description)) for each in selected)
    stacks = _stacks(selected, options, (*field, "rollout")) if options.rollout else {}
    if options.pool is not None:
        _check_pool(options, field)
    plan = AttentionPlan(
        selected,
        options,
        stacks,
        _by_label_set(options.query_groups, {each.description.query_labels: None for each in selected}, "queries"),
        _by_label_set(options.key_groups, {each.description.key_labels: None for each in selected}, "keys"),
    )
    replaced = {each.description.name for stack in stacks.values() for each in stack}
    for each in selected:
        description = each.description
        if options.top_k and description.features:
            raise InputError((*field, "top_k"), f"cannot be applied to {description.name}, whose weights have features")
        signed = is_signed(description, options.quantity) and description.name not in replaced
        if options.encoding is Encoding.UINT8 and signed:
            what = "" if options.quantity == WEIGHTS else f"the {quantity_name(options.quantity).lower()} of "
            raise InputError(
                (*field, "encoding"),
                f"is UINT8, which has no negative numbers as {what}{description.name} do; use FLOAT16",
            )
    return plan


def is_signed(description: model_pb2.MapDescription, quantity: int) -> bool:
    """Tell whether numbers of a map can be negative."""
    return quantity in (SCORES, VALUES) or (quantity == WEIGHTS and description.signed)


def check_instance(plan: AttentionPlan, labels: Mapping[str, Labels]) -> None:
    """Check the queries, keys and groups of a plan against an instance's label sets, as far as they are known.

    Raises: InputError naming the first index, range, span or input that the instance lacks.
    """
    for each in plan.selected:
        description = each.description
        for wanted, name, axis in (
            (each.queries, description.query_labels, "queries"),
            (each.keys, description.key_labels, "keys"),
        ):
            if wanted is not None and name in labels:
                indices(wanted, labels[name].size, f"{axis} of {description.name}")
    for groups in (*plan.query_groups.values(), *plan.key_groups.values()):
        if groups.label_set in labels:
            groups.members(labels)


def parts_of(plan: AttentionPlan, labels: Mapping[str, Labels]) -> dict[tuple[str, int], MapPart]:
    """Give what is enough of those maps of which not all is needed, for one checked instance."""
    found = {}
    for each in plan.selected:
        description = each.description
        key, half = (description.name, plan.options.quantity), plan.sends_halves_of(each)
        some = len(each.heads) != description.heads
        if description.query_labels in labels and (some or each.queries is not None):
            size = labels[description.query_labels].size
            queries = indices(each.queries, size, f"queries of {description.name}")
            heads = np.array(each.heads) if some else None
            found[key] = MapPart(heads, queries, half=half)
        elif half:
            found[key] = MapPart(half=True)
    return found


def rollout_description(replaced: Sequence[SelectedMap]) -> model_pb2.MapDescription:
    """Describe the map that a rollout puts in place of a stack's self maps."""
    first = replaced[0].description
    return model_pb2.MapDescription(
        name=f"{first.stack}.rollout" if first.stack else "rollout",
        stack=first.stack,
        kind=attention_pb2.MAP_KIND_SELF,
        normalised=True,
        heads=first.heads,
        query_labels=first.query_labels,
        key_labels=first.key_labels,
        head_labels=first.head_labels,
        form=model_pb2.MAP_FORM_DENSE,
    )


def head_count(selected: SelectedMap, options: Options) -> int:
    """Count the heads that are left after the reduction."""
    return len(selected.heads) if options.reduce_heads is HeadReduction.NONE else 1


def _check_scores(options: Options, field: Path) -> None:
    field, name = (*field, "quantity"), quantity_name(SCORES)
    if options.query_groups or options.key_groups:
        raise InputError(field, f"is {name}, whose sums and means mean nothing: they have no groups")
    if options.pool is not None and options.pool.reduction is PoolReduction.MEAN:
        raise InputError(field, f"is {name}, whose means mean nothing: pool them with MAX")


def _check_values(options: Options, field: Path) -> None:
    """Check that values are only selected: a key has the same for all queries, and heads have spaces of their own."""
    for name, is_set in (
        ("reduce_heads", options.reduce_heads is not HeadReduction.NONE),
        ("rollout", options.rollout),
        ("query_groups", bool(options.query_groups)),
        ("key_groups", bool(options.key_groups)),
        ("pool", options.pool is not None),
        ("top_k", bool(options.top_k)),
    ):
        if is_set:
            raise InputError(
                (*field, name), f"does not apply to {quantity_name(VALUES)}, which are vectors; leave it out"
            )
    for place, selection in enumerate(options.selections):
        if selection.queries:
            path = (*field, "selections", place, "queries")
            raise InputError(
                path, f"do not apply to {quantity_name(VALUES)}: those of a key are the same for all queries"
            )


def _of_values(description: model_pb2.MapDescription) -> model_pb2.MapDescription:
    """Describe the values of a map as a map without a query axis."""
    made = model_pb2.MapDescription()
    made.CopyFrom(description)
    made.query_labels = made.feature_labels = ""
    made.features = description.value_size
    return made


def _check_pool(options: Options, field: Path) -> None:
    if options.query_groups or options.key_groups:
        raise InputError((*field, "pool"), "does not apply together with groups; send one of them")
    for place, selection in enumerate(options.selections):
        for name, values in (("queries", selection.queries), ("keys", selection.keys)):
            if values:
                raise InputError((*field, "pool"), f"does not apply to selected {name} (selections[{place}].{name})")


def _by_label_set(groupings: Sequence[Grouping], there: Mapping[str, None], axis: str) -> dict[str, AxisGroups]:
    found: dict[str, AxisGroups] = {}
    listing = ", ".join(there)
    for each in groupings:
        field = (*each.field, "label_set")
        name = each.label_set
        if not name and len(there) > 1:
            raise InputError(field, f"is missing; the {axis} of the selected maps are of {listing}")
        name = name or next(iter(there))
        if name not in there:
            raise InputError(field, f"is {name!r}; the {axis} of the selected maps are of {listing}")
        if name in found:
            raise InputError(field, f"is {name!r} a second time; name all of its groups in one place")
        found[name] = AxisGroups(each, name)
    return found


def _stacks(selected: Sequence[SelectedMap], options: Options, field: Path) -> dict[str, tuple[SelectedMap, ...]]:
    if options.quantity != WEIGHTS:
        raise InputError(field, f"is of weights, not of {quantity_name(options.quantity)}")
    stacks: dict[str, list[SelectedMap]] = {}
    for each in selected:
        if each.description.kind == attention_pb2.MAP_KIND_SELF:
            stacks.setdefault(each.description.stack, []).append(each)
    if not stacks:
        raise InputError(field, "needs self maps, and the selection has none")
    for members in stacks.values():
        labels = members[0].description.query_labels
        for each in members:
            description = each.description
            if each.queries is not None or each.keys is not None:
                raise InputError(field, f"needs whole maps: leave out queries and keys of {description.name}")
            square = description.query_labels == description.key_labels == labels
            if not square or description.form != model_pb2.MAP_FORM_DENSE or description.features:
                raise InputError(field, f"needs square maps, which {description.name} is not")
            if description.signed:
                raise InputError(field, f"needs weights that are not negative, unlike those of {description.name}")
        members.sort(key=lambda each: each.description.layer)
    return {stack: tuple(members) for stack, members in stacks.items()}
