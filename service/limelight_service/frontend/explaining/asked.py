"""What a caller asks of an explanation, free of any protocol (`ExplainRequest` on the wire)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from limelight_service.attention.options import Group, Selection, Span

if TYPE_CHECKING:
    from limelight_service.frontend.calls import InstanceSource

MOST_UNITS = 256


class Way(Enum):
    """Ways to tell what an answer depends on, by their names on the wire."""

    ATTENTION = "WAY_ATTENTION"
    ROLLOUT = "WAY_ROLLOUT"
    LOOK_AWAY = "WAY_LOOK_AWAY"
    LOOK_ONLY = "WAY_LOOK_ONLY"
    ERASE = "WAY_ERASE"
    ERASE_OTHERS = "WAY_ERASE_OTHERS"

    @property
    def changes(self) -> bool:
        """True where the model runs again for each unit."""
        return self not in (Way.ATTENTION, Way.ROLLOUT)

    @property
    def looks(self) -> bool:
        """True where maps take a factor."""
        return self in (Way.LOOK_AWAY, Way.LOOK_ONLY)

    @property
    def keeps(self) -> bool:
        """True where the unit is left, and all others go."""
        return self in (Way.LOOK_ONLY, Way.ERASE_OTHERS)


class UnitKind(Enum):
    """Kinds of units, by their names on the wire."""

    USUAL = "UNIT_KIND_UNSPECIFIED"
    WORDS = "UNIT_KIND_WORDS"
    SENTENCES = "UNIT_KIND_SENTENCES"
    LINES = "UNIT_KIND_LINES"
    TOKENS = "UNIT_KIND_TOKENS"
    PATCHES = "UNIT_KIND_PATCHES"
    NODES = "UNIT_KIND_NODES"
    FRAMES = "UNIT_KIND_FRAMES"


class ScoreKind(Enum):
    """What the score of a target is, by its name on the wire."""

    LOG_PROBABILITY = "SCORE_KIND_LOG_PROBABILITY"
    VALUE = "SCORE_KIND_VALUE"
    SIMILARITY = "SCORE_KIND_SIMILARITY"


@dataclass(frozen=True)
class AskedUnits:
    """The units of a request. size: cells along a side, or frames; 0 for what gives at most 64 units."""

    kind: UnitKind = UnitKind.USUAL
    size: int = 0
    groups: Sequence[Group] = ()
    label_set: str = ""
    inputs: Sequence[str] = ()


@dataclass(frozen=True)
class AskedTarget:
    """The target of a request; None for the model's own answer. result: empty for the main one."""

    result: str = ""
    label: str | None = None
    index: int | None = None
    text: str | None = None
    span: Span | None = None
    similar_to: "InstanceSource | None" = None
    entry: int | None = None

    @property
    def kind(self) -> str:
        """Name of the field that is set; empty for none."""
        fields = ("label", "index", "text", "span", "similar_to")
        return next((each for each in fields if getattr(self, each) is not None), "")


@dataclass(frozen=True)
class Asked:
    """What is explained, of which units, in which ways; no ways for the usual ones."""

    target: AskedTarget = AskedTarget()
    units: AskedUnits = AskedUnits()
    ways: Sequence[Way] = ()
    selections: tuple[Selection, ...] = ()
