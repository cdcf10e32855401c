"""Explanations of a call, free of any protocol (`ExplainResponse` on the wire)."""

from collections.abc import Sequence
from dataclasses import dataclass

from limelight_bundle.rows import Labels
from limelight_bundle.values import Array
from limelight_service.frontend.calls import CheckedCall, Prediction
from limelight_service.frontend.explaining.agreement import Agreement
from limelight_service.frontend.explaining.asked import ScoreKind, Way


@dataclass(frozen=True)
class Explained:
    """What was explained (`ExplainedTarget` on the wire). score: in the answer to the instance as it is."""

    result: str
    kind: ScoreKind
    score: float
    label: str = ""
    index: int | None = None
    entry: int | None = None


@dataclass(frozen=True)
class WayValues:
    """The values [unit] of one way. maps: names of those that count, or look away."""

    way: Way
    values: Array
    maps: Sequence[str]


@dataclass(frozen=True)
class Explanation:
    """The explanation of the answer to one instance. rows: that were computed."""

    prediction: Prediction
    target: Explained
    units: Labels
    ways: Sequence[WayValues]
    agreements: Sequence[Agreement]
    rows: int


@dataclass(frozen=True)
class Explanations:
    """The answer to a call, an explanation for each instance."""

    checked: CheckedCall
    explanations: Sequence[Explanation]
