"""Rows with interventions on attention: the graph that runs for them, what it is fed, and what it refuses."""

from collections.abc import Iterator, Mapping, Sequence

from bundle.errors import InputError
from bundle.interventions import BoundIntervention, bound_interventions
from bundle.rows import Row
from bundle.v1 import bundle_pb2
from bundle.values import Array

# Of a weight of 1, that rounding may put on a masked key.
_ROUNDING = 1e-6


class Interventions:
    """The interventions that a model takes; none for most models."""

    def __init__(self, bundle: bundle_pb2.Bundle) -> None:
        self._maps: Sequence[BoundIntervention] = tuple(bound_interventions(bundle).values())
        self._inputs = frozenset(name for each in self._maps for name in each.inputs)

    def __bool__(self) -> bool:
        return bool(self._maps)

    def are_in(self, row: Row) -> bool:
        """Tell whether a row has any."""
        return bool(self._inputs) and not self._inputs.isdisjoint(row.tensors)

    def feeds(self, rows: Sequence[Row]) -> dict[str, Array]:
        """Give the inputs of a batch."""
        return {name: array for each in self._maps for name, array in each.feeds(rows)}

    def checked(self, feeds: Mapping[str, Array]) -> Iterator[BoundIntervention]:
        """Give the maps whose output `masked` tells something of a batch."""
        return (each for each in self._maps if each.replacement in feeds)

    def problem(self, outputs: Mapping[str, Array], place: int, index: int) -> InputError | None:
        """Give the error of a row that puts weight where its model must not look; None where it does not.

        Args:
            outputs: of the batch.
            place: of the row in the batch.
            index: of the row in its call.
        """
        for each in self._maps:
            if each.masked in outputs and (most := float(outputs[each.masked][place])) > _ROUNDING:
                reason = (
                    f"put a weight of {most:.3g} on a key of {each.map} to which its query must not attend; set these "
                    f"weights to 0, as they are in the map that Attend returns"
                )
                return InputError(f"instances[{index}].interventions", reason)
        return None
