"""Groups on the command line: `NAME=PLACE`.

| PLACE | entries |
| --- | --- |
| `0:12` | tokens that share a character with this part of the text |
| `first:0:12`, `2:0:12` | the same, in the first or second text of a pair, in sentence 2 of a document |
| `output:0:12` | the same, in the generated text, by the name of the output steps |
| `#0:3`, `#3`, `#0,2,-1` | entries by number; negative numbers count from the end |
| `text`, `pair.first` | all entries of this input |

A repeated name is the union of its places.
"""

import re
from collections.abc import Sequence

from limelight.base.commands import CommandError
from limelight.groups import Grouping, Member, TextSpan

_SPAN = re.compile(r"(?:(?P<part>[A-Za-z_][\w-]*|\d+):)?(?P<start>\d+):(?P<end>\d+)")
_RANGE = re.compile(r"#(?P<start>-?\d*):(?P<end>-?\d*)")
_INDICES = re.compile(r"#-?\d+(,-?\d+)*")
_INPUT = re.compile(r"[A-Za-z_][\w.-]*")


def read_groups(arguments: Sequence[str], label_set: str) -> Sequence[Grouping]:
    """Parse the groups of one axis. Raises CommandError for a value that is not `NAME=PLACE`."""
    groups: dict[str, list[Member]] = {}
    for argument in arguments:
        name, equals, place = argument.partition("=")
        if not equals or not name:
            raise CommandError(f"a group is NAME=PLACE, not {argument!r}", status=2)
        groups.setdefault(name, []).extend(read_members(place))
    return [Grouping(groups=groups, label_set=label_set)] if groups else []


def read_members(place: str) -> list[Member]:
    """Parse entries of an axis. Raises CommandError for a value that names none."""
    if span := _SPAN.fullmatch(place):
        start, end, part = int(span["start"]), int(span["end"]), span["part"]
        if part and part.isdecimal():
            return [TextSpan(start, end, sentence=int(part))]
        return [TextSpan(start, end, part=part or "")]
    if entries := _RANGE.fullmatch(place):
        return [slice(*(int(each) if each else None for each in (entries["start"], entries["end"])))]
    if _INDICES.fullmatch(place):
        return [int(index) for index in place[1:].split(",")]
    if _INPUT.fullmatch(place):
        return [place]
    wanted = "START:END in the text, #START:END or #INDEX for entries, or the name of an input"
    raise CommandError(f"{place!r} is not a valid PLACE of a group: {wanted}", status=2)
