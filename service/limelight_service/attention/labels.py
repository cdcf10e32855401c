"""The label sets that groups and ranges make of others: their names, and what is in them."""

from collections.abc import Mapping, Sequence

from limelight.v1 import attention_pb2
from limelight_bundle.rows import Labels
from limelight_service.attention.members import AxisGroups, Indices


def query_groups_of(label_set: str) -> str:
    """Name the groups of a set that queries are of."""
    return f"{label_set}.query_groups"


def key_groups_of(label_set: str) -> str:
    """Name the groups of a set that keys are of."""
    return f"{label_set}.key_groups"


def query_ranges_of(label_set: str) -> str:
    """Name the ranges of a set that queries are of."""
    return f"{label_set}.query_ranges"


def key_ranges_of(label_set: str) -> str:
    """Name the ranges of a set that keys are of."""
    return f"{label_set}.key_ranges"


def group_labels(name: str, label_set: str, names: Sequence[str]) -> Labels:
    """Label groups by the names that the request gave them."""
    return Labels(name, attention_pb2.LABEL_KIND_GROUPS, len(names), names, parent=label_set)


def range_labels(name: str, label_set: str, bounds: Indices) -> Labels:
    """Label ranges by where each begins and ends; bounds: [range + 1]."""
    places = bounds.tolist()
    return Labels(
        name,
        attention_pb2.LABEL_KIND_RANGES,
        len(places) - 1,
        starts=places[:-1],
        ends=places[1:],
        parent=label_set,
    )


def planned_labels(key_groups: Mapping[str, AxisGroups]) -> list[Labels]:
    """Label the groups of keys that a plan names: the same for every instance."""
    return [group_labels(key_groups_of(name), name, groups.names) for name, groups in key_groups.items()]
