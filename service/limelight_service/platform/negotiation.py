"""What a caller takes, of what there is: the fields `Accept` and `Accept-Encoding` (RFC 9110, 12.5)."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

# What stands in quotation marks is one, and goes on to the end where nothing ends it: so that reading takes one pass.
_QUOTED = r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)'
_ELEMENT = re.compile(rf"(?:[^,\"]|{_QUOTED})+", re.DOTALL)
_PART = re.compile(rf"(?:[^;\"]|{_QUOTED})+", re.DOTALL)
_MOST = 64  # elements that are read
_QUALITY = re.compile(r"(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


class Range(NamedTuple):
    """One element of a field. name: in lower case. parameters: true where it has others than its quality."""

    name: str
    quality: float
    parameters: bool
    text: str

    def closeness(self, name: str) -> int:
        """Tell how closely this describes a media type or a coding; 0 where it does not."""
        levels = {"*": 1, "*/*": 1, f"{name.partition('/')[0]}/*": 2, name: 3}
        level = levels.get(self.name, 0)
        return 2 * level - self.parameters if level else 0


def ranges(field: str) -> Iterator[Range]:
    """Read a field; an element whose quality is none is left out."""
    for found in islice(_ELEMENT.finditer(field), _MOST):
        element = found[0]
        name, *parameters = [each.strip() for each in _PART.findall(element)] or [""]
        quality, others = 1.0, False
        for each in parameters:
            key, _, value = (part.strip() for part in each.partition("="))
            if key.lower() != "q":
                others = True
            elif _QUALITY.fullmatch(value):
                quality = float(value)
            else:
                break
        else:
            if name:
                yield Range(name.lower(), quality, others, element.strip())


def chosen(field: str, offered: Sequence[str]) -> Range | None:
    """Choose of several media types, the preferred of the server first, by what a caller takes.

    Returns: the chosen one, with the text of the range that it was chosen by; None where the caller takes none of them.
    """
    found = [*ranges(field)]
    if not found:
        return Range(offered[0], 1.0, False, "")
    best: tuple[tuple[float, int, int], Range] | None = None
    for name in offered:
        place = max(range(len(found)), key=lambda each: (found[each].closeness(name), found[each].quality, -each))
        closest = found[place]
        closeness = closest.closeness(name)
        rank = closest.quality, closeness, -place
        if closeness and closest.quality and (best is None or rank > best[0]):
            best = rank, Range(name, closest.quality, closest.parameters, closest.text)
    return None if best is None else best[1]


def takes_coding(field: str, coding: str) -> bool:
    """Tell whether a caller takes a content coding, and no less gladly than none at all."""
    found = [*ranges(field)]

    def quality(name: str, otherwise: float) -> float:
        closest = max(found, key=lambda each: each.closeness(name), default=None)
        return otherwise if closest is None or not closest.closeness(name) else closest.quality

    named = next((each.quality for each in found if each.name == "identity"), 0.0)
    asked = max(quality(coding, 0.0), next((each.quality for each in found if each.name == f"x-{coding}"), 0.0))
    return asked > 0 and asked >= named
