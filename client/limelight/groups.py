"""Groups of entries of an axis, as Python values and as protocol messages.

A group contains entries, a part of the text, or an input:

| Python | entries |
| --- | --- |
| `3` or `[0, 3, -1]` | these entries; negative numbers count from the end |
| `range(0, 12)` or `slice(0, 12)` | from the first to before the second; a slice may also count from the end |
| `TextSpan(0, 12)`, or a `Span` of an answer | tokens that share a character with this part of the text |
| `"text"` or `"pair.first"` | all entries of this input, except special tokens and leading entries of a grid |
| `"output"` | all generated tokens, by the name of the output steps, except special tokens |
| a list of those | their union |
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from limelight.base.enums import number_of
from limelight.base.errors import InputError
from limelight.base.strings import check_string, quote
from limelight.predictions import Span
from limelight.v1 import attention_pb2, values_pb2


@dataclass(frozen=True)
class TextSpan:
    """A span of a text as sent, in Unicode code points (Python's string indices)."""

    start: int
    end: int
    """End, exclusive."""
    sentence: int | None = None
    """For a document sent as sentences: the sentence that contains the span."""
    part: str = ""
    """For a pair: "first" or "second", the text that contains the span. Among the tokens that a generating model reads:
    the name of the output steps, such as "output", for a span of the generated text; empty for the prompt. Empty if the
    axis has tokens of one text only."""


Member: TypeAlias = int | range | slice | str | TextSpan | Span
Members: TypeAlias = Member | Sequence[Member]
Groups: TypeAlias = Mapping[str, Members]


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """Groups of the entries of one label set, by their names in the answer."""

    groups: Groups
    label_set: str = ""
    """Label set to group; axes of other sets are unchanged. Empty if all axes have the same set."""
    reduction: Literal["sum", "mean"] | None = None
    """Combination of a group's weights; None for the sum over keys and the mean over queries."""


Groupings: TypeAlias = Groups | Grouping | Sequence[Grouping]


@dataclass(frozen=True)
class Pool:
    """Pools maps for display: each axis is cut into at most `size` ranges of nearly equal length."""

    size: int
    """From 1 to 4,096."""
    reduction: Literal["max", "mean"] = "max"
    """Combination of the weights of a cell."""

    def message(self) -> attention_pb2.Pool:
        """Build the protocol message."""
        reduction = number_of(attention_pb2.PoolReduction, self.reduction, what="a pool's reduction")
        return attention_pb2.Pool(size=self.size, reduction=reduction)


def grouping_messages(groupings: Groupings, field: str = "groups") -> list[attention_pb2.Grouping]:
    """Build the protocol's groupings.

    Args:
        field: path in the request, for errors.
    Raises:
        TypeError: a value is not a possible member of a group.
        ValueError: a range has gaps.
        InputError: a name cannot be sent.
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
    groups = [group_message(name, members, f"{field}[{quote(name)}]") for name, members in grouping.groups.items()]
    return attention_pb2.Grouping(label_set=grouping.label_set, groups=groups, reduction=reduction)


def group_message(name: str, members: Members, field: str) -> values_pb2.Group:
    """Build the protocol's group. Raises: as `grouping_messages`."""
    check_string(name, f"the name in {field}")
    group = values_pb2.Group(name=name)
    # Strings and ranges are sequences, but each is one member.
    one = isinstance(members, str | range) or not isinstance(members, Sequence)
    several = [members] if one else members
    for member in cast(Sequence[Member], several):
        try:
            _add(group, member, field)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            kind = InputError if isinstance(error, ValueError) else TypeError
            raise kind(f"{f'group {name!r}' if name else field}: {error}") from error
    return group


def _add(group: values_pb2.Group, member: object, field: str) -> None:
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
                group.indices.append(operator.index(member))  # type: ignore[arg-type]  # refuses other types
            except TypeError:
                raise TypeError(f"a {type(member).__name__} cannot be a member of a group") from None
