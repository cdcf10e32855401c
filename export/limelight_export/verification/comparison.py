"""Comparison of two answers within tolerances."""

from dataclasses import dataclass

import numpy as np

from limelight_bundle.tolerance import Tolerances, default_tolerances
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.row_answers import RowAnswer
from limelight_export.interface import hidden_names, map_keys
from limelight_models.cards.card import Card
from limelight_models.cards.results import NEVER

# Of hidden states, by the largest magnitude of a vector: ten times that of outputs.
_STATE_TOLERANCE = 1e-4


def possible_values(array: Array) -> Array:
    """Return the values of an array without the scores of tokens that are never put out."""
    values: Array = array[array != NEVER]
    return values


@dataclass
class _Difference:
    difference: float = 0.0
    magnitude: float = 0.0
    cases: int = 0


class Comparison:
    """Compares a graph's answers with PyTorch's, within the tolerances that the bundle will state."""

    def __init__(self, card: Card, reference: str = "PyTorch") -> None:
        """Make a comparison.

        Args:
            reference: name of what the graphs are compared with, for messages.
        """
        self.reference = reference
        self.tolerances = default_tolerances(map_keys(card))
        # Between layers numbers are far larger than those that a norm makes of them, with the rounding of all layers.
        states = [
            bundle_pb2.Tolerance(name=name, absolute=_STATE_TOLERANCE, relative=10 * _STATE_TOLERANCE)
            for name in hidden_names(card)
        ]
        self._allowed = Tolerances([*self.tolerances, *states], "CPUExecutionProvider")
        self._differences: dict[str, _Difference] = {}

    def compare_answers(self, actual: RowAnswer, expected: RowAnswer, case: str) -> None:
        """Compare the outputs and maps of one row. Raises ExportError where they differ."""
        for name, array in expected.outputs.items():
            self.compare_arrays(name, actual.outputs[name], array, case)
        for name, weights in expected.maps.items():
            if not actual.maps[name].has_edges_of(weights):
                raise ExportError(f"the exported graph's map {name} has other edges than {self.reference}'s ({case})")
            self.compare_arrays(name, actual.maps[name].weights, weights.weights, case, is_map=True)

    def compare_padding(self, batched: RowAnswer, alone: RowAnswer, case: str, *, padded: bool = True) -> None:
        """Compare the reference's answers to a row in a batch and alone.

        Args:
            padded: whether rows of the batch are padded.
        Raises:
            ExportError: they differ: the model reads padding, or other rows. An export cannot repair this.
        """
        pairs = [(name, batched.outputs[name], array, False) for name, array in alone.outputs.items()]
        for name, each in alone.maps.items():
            if not batched.maps[name].has_edges_of(each):
                raise ExportError(
                    f"the model's map {name} has other edges in a batch than alone ({case}); export cannot repair this"
                )
            pairs.append((name, batched.maps[name].weights, each.weights, True))
        for name, actual, expected, is_map in pairs:
            if problem := self._allowed.difference(name, actual, expected, is_map=is_map):
                cause = "does the model read padding?" if padded else "a row's answer depends on its neighbours"
                raise ExportError(
                    f"the model's answer in a batch differs from its answer alone: {problem} ({case}); {cause}"
                )

    def compare_arrays(self, name: str, actual: Array, expected: Array, case: str, *, is_map: bool = False) -> None:
        """Compare two arrays.

        Raises:
            ExportError: names the output, the difference, and the case.
        """
        if problem := self._allowed.difference(name, actual, expected, is_map=is_map):
            raise ExportError(f"the exported graph's answer differs from {self.reference}'s: {problem} ({case})")
        self.record(name, actual, expected)

    def record(self, name: str, actual: Array, expected: Array) -> None:
        """Record the largest difference for the report."""
        seen = self._differences.setdefault(name, _Difference())
        seen.cases += 1
        if expected.size:
            exact = expected.astype(np.float64)
            seen.difference = max(seen.difference, float(np.abs(actual.astype(np.float64) - exact).max()))
            seen.magnitude = max(seen.magnitude, float(np.abs(possible_values(exact)).max(initial=0.0)))

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
