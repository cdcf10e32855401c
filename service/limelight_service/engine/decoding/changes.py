"""Interventions on the maps of output steps: what a decode step is fed for the rows that have them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

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
    """The interventions that the step graph takes; none for most models.

    The first step reads the last token of the prompt, so that a change of this token's row in the map `prompt.X` is one
    of that step's `decoder.X`, where the change of that map leaves it.
    """

    def __init__(self, maps: Iterable[BoundIntervention], of_prompts: Iterable[BoundIntervention] = ()) -> None:
        """Bind those of the step graph. of_prompts: those of the prefill graph."""
        by_layer = {_layer(each): each for each in of_prompts}
        self._maps = [(each, by_layer.get(_layer(each))) for each in maps]

    def __bool__(self) -> bool:
        return bool(self._maps)

    def feeds(self, rows: Sequence[RowAtStep], slots: int) -> dict[str, Array]:
        """Give the inputs that some row has; slots of others are left as they are. slots: their number."""
        feeds: dict[str, Array] = {}
        for bound, of_prompt in self._maps:
            found = [(list(each.slots), _parts(bound, of_prompt, each)) for each in rows]
            for name in bound.inputs:
                if parts := [(places, each[name]) for places, each in found if name in each]:
                    feeds[name] = bound.together(name, parts, slots)
        return feeds


def _layer(bound: BoundIntervention) -> str:
    """Name a map within its part of the model: `3.self` of `prompt.3.self` and of `decoder.3.self`."""
    return bound.map.partition(".")[2]


def _parts(bound: BoundIntervention, of_prompt: BoundIntervention | None, at: RowAtStep) -> dict[str, Array]:
    """Give what a row has for one step: scales [head], others [head, 1, key]."""
    tensors = at.row.tensors
    own = {name: _part(bound, name, at) for name in bound.inputs if name in tensors}
    if at.step or of_prompt is None:
        return own
    last = {
        name: tensors[other] if name == bound.scales else tensors[other][:, -1:]
        for name, other in zip(bound.inputs, of_prompt.inputs, strict=True)
        if other in tensors
    }
    if not last or not own:
        return last or own
    both = {
        name: bound.together(name, [([place], each[name]) for place, each in enumerate((last, own)) if name in each], 2)
        for name in {**last, **own}
    }
    replaced = sum(both[name][1] for name in (bound.replaced, bound.uniform) if name in both)
    left = {name: both[name][1] == 1 for name in (bound.scales, bound.key_factors) if name in both}
    return {name: np.where(left.get(name, replaced == 0), read, now) for name, (read, now) in both.items()}


def _part(bound: BoundIntervention, name: str, at: RowAtStep) -> Array:
    """Give what a row's own tensor has for one step."""
    tensor = at.row.tensors[name]
    if name == bound.scales:
        return tensor
    step = min(at.step, tensor.shape[1] - 1)
    keys = at.entries if bound.key_labels not in at.row.labels else tensor.shape[2]
    return tensor[:, step : step + 1, :keys]
