"""Rows with interventions on attention: what the graphs that run for them are fed, and what they refuse."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from limelight_bundle.errors import InputError
from limelight_bundle.interventions import BoundIntervention
from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_service.engine.jobs import Job

# Of a weight of 1, that rounding may put on a masked key.
_ROUNDING = 1e-6


class Interventions:
    """The interventions that a graph takes, or a model; none for most."""

    def __init__(self, maps: Iterable[BoundIntervention]) -> None:
        self._maps = tuple(maps)
        self._inputs = frozenset(name for each in self._maps for name in each.inputs)

    def __bool__(self) -> bool:
        return bool(self._maps)

    def are_in(self, row: Row) -> bool:
        """Tell whether a row has any."""
        return bool(self._inputs) and not self._inputs.isdisjoint(row.tensors)

    def feeds(self, rows: Sequence[Row]) -> dict[str, Array]:
        """Give the inputs of a batch."""
        return {name: array for each in self._maps for name, array in each.feeds(rows)}

    def checked(self, feeds: Mapping[str, Array]) -> tuple[str, ...]:
        """Name the outputs that tell whether a row of a batch puts weight where its model must not look."""
        return tuple(each.masked for each in self._maps if each.masked and each.replacement in feeds)

    def problem(self, outputs: Mapping[str, Array], place: int | slice | list[int], job: Job) -> InputError | None:
        """Give the error of a row that puts weight where its model must not look; None where it does not.

        Args:
            outputs: of the batch.
            place: of the row in the batch; the slots of one that generates.
        """
        for each in self._maps:
            if each.masked in outputs and (most := float(np.max(outputs[each.masked][place]))) > _ROUNDING:
                reason = (
                    f"put a weight of {most:.3g} on a key of {each.map} to which its query must not attend; set these "
                    f"weights to 0, as they are in the map that Attend returns"
                )
                path = ("instances", job.index) if job.call.tell is None else ("instance",)
                return InputError((*path, "interventions"), reason)
        return None
