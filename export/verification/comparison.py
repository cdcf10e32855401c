"""Two answers side by side: refused where they differ by more than is allowed, else measured."""

from dataclasses import dataclass

import numpy as np

from bundle.tolerance import Tolerances, default_tolerances
from bundle.v1 import bundle_pb2
from bundle.values import Array
from export.errors import ExportError
from export.execution.row_answers import RowAnswer
from export.interface import map_keys
from models.cards.card import Card


@dataclass
class _Seen:
    difference: float = 0.0
    magnitude: float = 0.0
    cases: int = 0


class Comparison:
    """Compares what a graph answers with what PyTorch answers, by the tolerances that the bundle will state."""

    def __init__(self, card: Card) -> None:
        self.tolerances = default_tolerances(map_keys(card))
        self._allowed = Tolerances(self.tolerances, "CPUExecutionProvider")
        self._seen: dict[str, _Seen] = {}

    def answers(self, actual: RowAnswer, expected: RowAnswer, case: str) -> None:
        """Compare one row's outputs and maps."""
        for name, array in expected.outputs.items():
            self.arrays(name, actual.outputs[name], array, case)
        for name, weights in expected.maps.items():
            if not actual.maps[name].has_edges_of(weights):
                raise ExportError(f"the exported graph gives the map {name} other edges than PyTorch does ({case})")
            self.arrays(name, actual.maps[name].weights, weights.weights, case, is_map=True)

    def padding(self, padded: RowAnswer, alone: RowAnswer, case: str) -> None:
        """Compare PyTorch's own answers to a row in a batch and alone.

        Raises: ExportError where they differ: the model reads padding, which no graph made of it can mend.
        """
        pairs = [(name, padded.outputs[name], array, False) for name, array in alone.outputs.items()]
        for name, each in alone.maps.items():
            if not padded.maps[name].has_edges_of(each):
                raise ExportError(f"the model itself gives the map {name} other edges in a batch than alone ({case})")
            pairs.append((name, padded.maps[name].weights, each.weights, True))
        for name, actual, expected, is_map in pairs:
            if problem := self._allowed.difference(name, actual, expected, is_map=is_map):
                raise ExportError(f"the model itself answers otherwise in a batch than alone: {problem} ({case})")

    def arrays(self, name: str, actual: Array, expected: Array, case: str, *, is_map: bool = False) -> None:
        """Compare two arrays.

        Raises: ExportError naming the output, by how much it differs, and the case.
        """
        if problem := self._allowed.difference(name, actual, expected, is_map=is_map):
            raise ExportError(f"the exported graph does not answer as PyTorch does: {problem} ({case})")
        self.note(name, actual, expected)

    def note(self, name: str, actual: Array, expected: Array) -> None:
        """Keep the largest difference, for the report."""
        seen = self._seen.setdefault(name, _Seen())
        seen.cases += 1
        if expected.size:
            exact = expected.astype(np.float64)
            seen.difference = max(seen.difference, float(np.abs(actual.astype(np.float64) - exact).max()))
            seen.magnitude = max(seen.magnitude, float(np.abs(exact).max()))

    def parity(self) -> list[bundle_pb2.Parity]:
        """Report the largest differences seen."""
        return [
            bundle_pb2.Parity(
                name=name,
                absolute=seen.difference,
                relative=seen.difference / seen.magnitude if seen.magnitude else 0.0,
                cases=seen.cases,
            )
            for name, seen in self._seen.items()
        ]
