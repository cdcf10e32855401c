"""Spatial relations of digits, stated only where they are clear."""

from collections.abc import Sequence

from limelight_models.data.canvas.world import Digit

OPPOSITES = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}
_CLEARLY = 1.5


def offset(one: Digit, other: Digit, relation: str) -> tuple[float, float]:
    """Distance of `one` from `other` along the relation's direction, and across it, in pixels."""
    across, down = (a - b for a, b in zip(one.centre, other.centre, strict=True))
    along = {"left of": -across, "right of": across, "above": -down, "below": down}[relation]
    return along, abs(down if relation in ("left of", "right of") else across)


def clear(one: Digit, other: Digit, relation: str) -> bool:
    """Tell whether `one` is that way of `other`, and nobody would say another."""
    along, aside = offset(one, other, relation)
    return along >= _CLEARLY * aside


def possible(one: Digit, other: Digit, relation: str) -> bool:
    """Tell whether somebody could say that `one` is that way of `other`."""
    along, aside = offset(one, other, relation)
    return _CLEARLY * along > aside


def the_one(digits: Sequence[Digit], other: Digit, relation: str) -> Digit | None:
    """The only digit that is that way of `other`; None where there is none, or it could be another."""
    found = [each for each in digits if each is not other and possible(each, other, relation)]
    return found[0] if len(found) == 1 and clear(found[0], other, relation) else None
