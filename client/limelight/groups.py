"""Entries of an axis that are taken together: what a caller writes, and the protocol's groupings.

A group is what belongs together: a part of the text, an input, entries by number. It is written as

| Python | the entries |
| --- | --- |
| `3` or `[0, 3, -1]` | these; a negative one counts from the end |
| `range(0, 12)` or `slice(0, 12)` | from the first to before the second; a slice may also count from the end |
| `TextSpan(0, 12)`, or a `Span` of an answer | tokens that share a character with this part of the text |
| `"text"` or `"pair.first"` | all that come from this input, special tokens and a grid's leading entries apart |
| a list of those | their union |
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from limelight.enums import number_of
from limelight.errors import InputError
from limelight.predictions import Span
from limelight.strings import check_string, quoted
from limelight.v1 import attention_pb2


@dataclass(frozen=True)
class TextSpan:
    """A part of a text as it was sent, in Unicode code points (Python's own indices)."""

    start: int
    end: int
    """One past its end."""
    sentence: int | None = None
    """Of a document sent as sentences: the one that the places are in."""
    part: Literal["", "first", "second"] = ""
    """Of a pair: the text that the places are in; empty where an axis has tokens of one text only."""


Member: TypeAlias = int | range | slice | str | TextSpan | Span
Members: TypeAlias = Member | Sequence[Member]
Groups: TypeAlias = Mapping[str, Members]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Groups of the entries of one label set, by the name that each has in the answer."""

    groups: Groups
    label_set: str = ""
    """Axes of other label sets stay as they are; empty where all axes in question have the same one."""
    reduction: Literal["sum", "mean"] | None = None
    """Of the weights of a group's members; None for the sum of keys, and the mean of queries."""


Groupings: TypeAlias = Groups | Grouping | Sequence[Grouping]


@dataclass(frozen=True)
class Pool:
    """Shrinks maps for a picture: both axes are cut into at most `size` ranges of nearly equal length each."""

    size: int
    """From 1 to 4,096."""
    reduction: Literal["max", "mean"] = "max"
    """Of the weights that fall into one cell."""

    def message(self) -> attention_pb2.Pool:
        """The protocol's message."""
        reduction = number_of(attention_pb2.PoolReduction, self.reduction, what="a pool's reduction")
        return attention_pb2.Pool(size=self.size, reduction=reduction)


def grouping_messages(groupings: Groupings, field: str = "groups") -> list[attention_pb2.Grouping]:
    """The protocol's groupings; `field` is what they are of a request.

    Raises: TypeError for what is no member of a group, ValueError for a range with gaps, both naming the group;
    InputError for a name that cannot be sent.
    """
    if isinstance(groupings, Grouping):
        groupings = [groupings]
    elif isinstance(groupings, Mapping):
        groupings = [Grouping(groups=groupings)] if groupings else []
    return [_grouping(each, field) for each in groupings]


def _grouping(grouping: Grouping, field: str) -> attention_pb2.Grouping:
    reduction = None
    if grouping.reduction is not None:
        reduction = number_of(attention_pb2.GroupReduction, grouping.reduction, what="a grouping's reduction")
    check_string(grouping.label_set, f"{field}, the label set")
    groups = [_group(name, members, f"{field}[{quoted(name)}]") for name, members in grouping.groups.items()]
    return attention_pb2.Grouping(label_set=grouping.label_set, groups=groups, reduction=reduction)


def _group(name: str, members: Members, field: str) -> attention_pb2.Group:
    check_string(name, f"the name in {field}")
    group = attention_pb2.Group(name=name)
    # Strings and ranges are sequences too, and each a member of its own.
    one = isinstance(members, str | range) or not isinstance(members, Sequence)
    several = [members] if one else members
    for member in cast(Sequence[Member], several):
        try:
            _add(group, member, field)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            kind = InputError if isinstance(error, ValueError) else TypeError
            raise kind(f"group {name!r}: {error}") from error
    return group


def _add(group: attention_pb2.Group, member: object, field: str) -> None:
    match member:
        case str():
            group.inputs.append(check_string(member, field))
        case TextSpan() | Span():
            part = check_string(member.part, f"{field}.part")
            group.spans.add(start=member.start, end=member.end, sentence=member.sentence, part=part)
        case range():
            if member.step != 1 or member.start < 0:
                raise ValueError(f"{member} has gaps or counts from the end: give the indices as a list, or a slice")
            # The protocol's 0 is the end of the axis; an empty range has no entries.
            if len(member):
                group.ranges.add(start=member.start, end=member.stop)
        case slice():
            if member.step not in (None, 1) or member.stop == 0:
                raise ValueError(f"{member} has gaps or no entries: give the indices as a list")
            group.ranges.add(start=member.start or 0, end=member.stop or 0)
        case _:
            try:
                group.indices.append(operator.index(member))  # type: ignore[arg-type]  # refuses what is no integer
            except TypeError:
                raise TypeError(f"no member of a group is a {type(member).__name__}") from None
