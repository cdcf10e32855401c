"""Comparison of two answers within tolerances."""

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
class _Difference:
    difference: float = 0.0
    magnitude: float = 0.0
    cases: int = 0


class Comparison:
    """Compares a graph's answers with PyTorch's, within the tolerances that the bundle will state."""

    def __init__(self, card: Card) -> None:
        self.tolerances = default_tolerances(map_keys(card), card.scales)
        self._allowed = Tolerances(self.tolerances, "CPUExecutionProvider")
        self._differences: dict[str, _Difference] = {}

    def compare_answers(self, actual: RowAnswer, expected: RowAnswer, case: str) -> None:
        """Compare the outputs and maps of one row. Raises ExportError where they differ."""
        for name, array in expected.outputs.items():
            self.compare_arrays(name, actual.outputs[name], array, case)
        for name, weights in expected.maps.items():
            if not actual.maps[name].has_edges_of(weights):
                raise ExportError(f"the exported graph's map {name} has other edges than PyTorch's ({case})")
            self.compare_arrays(name, actual.maps[name].weights, weights.weights, case, is_map=True)

    def compare_padding(self, padded: RowAnswer, alone: RowAnswer, case: str) -> None:
        """Compare PyTorch's answers to a row in a batch and alone.

        Raises:
            ExportError: they differ. The model reads padding, which an export cannot repair.
        """
        pairs = [(name, padded.outputs[name], array, False) for name, array in alone.outputs.items()]
        for name, each in alone.maps.items():
            if not padded.maps[name].has_edges_of(each):
                raise ExportError(
                    f"the model's map {name} has other edges in a batch than alone ({case}); export cannot repair this"
                )
            pairs.append((name, padded.maps[name].weights, each.weights, True))
        for name, actual, expected, is_map in pairs:
            if problem := self._allowed.difference(name, actual, expected, is_map=is_map):
                raise ExportError(
                    f"the model's answer in a batch differs from its answer alone: {problem} ({case}); "
                    "does the model read padding?"
                )

    def compare_arrays(self, name: str, actual: Array, expected: Array, case: str, *, is_map: bool = False) -> None:
        """Compare two arrays.

        Raises:
            ExportError: names the output, the difference, and the case.
        """
        if problem := self._allowed.difference(name, actual, expected, is_map=is_map):
            raise ExportError(f"the exported graph's answer differs from PyTorch's: {problem} ({case})")
        self.record(name, actual, expected)

    def record(self, name: str, actual: Array, expected: Array) -> None:
        """Record the largest difference for the report."""
        seen = self._differences.setdefault(name, _Difference())
        seen.cases += 1
        if expected.size:
            exact = expected.astype(np.float64)
            seen.difference = max(seen.difference, float(np.abs(actual.astype(np.float64) - exact).max()))
            seen.magnitude = max(seen.magnitude, float(np.abs(exact).max()))

    def parity(self) -> list[bundle_pb2.Parity]:
        """Return the largest differences."""
        return [
            bundle_pb2.Parity(
                name=name,
                absolute=seen.difference,
                relative=seen.difference / seen.magnitude if seen.magnitude else 0.0,
                cases=seen.cases,
            )
            for name, seen in self._differences.items()
        ]
