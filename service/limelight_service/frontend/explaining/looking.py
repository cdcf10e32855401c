"""Looking away: maps whose weights on a unit are multiplied by 0."""

from collections.abc import Iterable, Sequence

from limelight_bundle.errors import InputError, Path
from limelight_service.attention.options import Group
from limelight_service.attention.select import SelectedMap
from limelight_service.frontend.explaining.asked import Way
from limelight_service.frontend.explaining.units import Members
from limelight_service.frontend.interventions import Change, Intervention, KeyFactor
from limelight_service.frontend.schema import ModelSchema

_REMEDY = "import or export the model anew, with interventions, or use WAY_ERASE"


def looking_maps(selected: Iterable[SelectedMap], schema: ModelSchema, label_sets: Iterable[str]) -> list[SelectedMap]:
    """Give the selected maps that take a factor on keys of some label sets."""
    known = frozenset(label_sets)
    return [
        each
        for each in selected
        if each.description.normalised
        and each.description.key_labels in known
        and (bound := schema.interventions.get(each.description.name)) is not None
        and bound.key_factors
    ]


def no_looking(selected: Sequence[SelectedMap], schema: ModelSchema, way: Way, field: Path) -> InputError:
    """Make the error of a way for which no map takes a factor."""
    if not schema.interventions:
        return InputError(field, f"is {way.value}, but no map of the model takes interventions; {_REMEDY}")
    names = ", ".join(each.description.name for each in selected[:12])
    reason = "takes a factor on keys that are units: its weights have no fixed sum, or its keys are not of this input"
    return InputError(field, f"is {way.value}, but none of {names} {reason}; select other maps, or use WAY_ERASE")


def looking_away(maps: Sequence[SelectedMap], members: Members, field: Path) -> list[Intervention]:
    """Give the interventions that look away from entries, in every map that has some as keys.

    Args:
        members: the entries by label set.
        field: path of the instance.
    """
    found = []
    for each in maps:
        description = each.description
        keys = members.get(description.key_labels)
        if keys is not None and len(keys):
            heads = () if len(each.heads) == description.heads else tuple(each.heads)
            factor = KeyFactor(0.0, Group("", indices=tuple(keys.tolist())))
            found.append(Intervention(field, description.name, Change.KEY_FACTOR, heads=heads, key_factor=factor))
    return found
