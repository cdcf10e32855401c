"""Interventions on the maps of output steps: what a decode step is fed for the rows that have them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from limelight_bundle.interventions import BoundIntervention
from limelight_bundle.rows import Row
from limelight_bundle.values import Array


@dataclass(frozen=True)
class RowAtStep:
    """A row that takes a step. slots: of its live hypotheses; entries: keys of a map over the input steps."""

    row: Row
    step: int
    slots: Sequence[int]
    entries: int


class StepChanges:
    """The interventions that the step graph takes; none for most models."""

    def __init__(self, maps: Iterable[BoundIntervention]) -> None:
        self._maps = tuple(maps)

    def __bool__(self) -> bool:
        return bool(self._maps)

    def feeds(self, rows: Sequence[RowAtStep], slots: int) -> dict[str, Array]:
        """Give the inputs that some row has; slots of others are left as they are. slots: their number."""
        feeds: dict[str, Array] = {}
        for bound in self._maps:
            for name in bound.inputs:
                parts = [(list(each.slots), _part(bound, name, each)) for each in rows if name in each.row.tensors]
                if parts:
                    feeds[name] = bound.together(name, parts, slots)
        return feeds


def _part(bound: BoundIntervention, name: str, at: RowAtStep) -> Array:
    """Give what a row's tensor has for one step: scales [head], others [head, 1, key]."""
    tensor = at.row.tensors[name]
    if name == bound.scales:
        return tensor
    step = min(at.step, tensor.shape[1] - 1)
    keys = at.entries if bound.key_labels not in at.row.labels else tensor.shape[2]
    return tensor[:, step : step + 1, :keys]
