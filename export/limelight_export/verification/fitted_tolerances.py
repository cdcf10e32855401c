"""Tolerances of a converted graph: fitted to the measured differences with a margin, or refused."""

from dataclasses import dataclass

import numpy as np

from limelight_bundle.tolerance import LARGEST_TOLERANCE, Tolerances, output_scale, row_magnitude
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.interface import map_keys
from limelight_export.precision import Precision
from limelight_export.verification.comparison import Comparison, possible_values
from limelight_models.cards.card import Card

_MARGIN = 2.0
# Other providers sum in another order, with roundings much coarser than float32's.
_OTHER_MARGIN = 4.0
# A constant output differs from one of the answers by half of their range.
_MAX_SHARE_OF_RANGE = 0.25
# A map that attends to the wrong place differs by the row's largest weight.
_MAX_SHARE_OF_ROW = 0.5
_CPU = "CPUExecutionProvider"


@dataclass
class _Spread:
    """The largest difference (of maps: relative to the row's largest weight), and the range of the answers.

    scaled: the largest difference by the factor of its row's absolute tolerance. scale: the largest such factor.
    """

    difference: float = 0.0
    scaled: float = 0.0
    scale: float = 1.0
    least: float = np.inf
    most: float = -np.inf


class FittingComparison(Comparison):
    """Compares the answers of a graph of lower precision with a reference's, and fits tolerances to the differences."""

    def __init__(self, card: Card, precision: Precision, reference: str = "PyTorch") -> None:
        super().__init__(card, reference)
        self._precision = precision
        self._maps = frozenset(map_keys(card))
        self._stated = [*(each.name for each in card.description.outputs), *map_keys(card)]
        self._spreads: dict[str, _Spread] = {}
        self._fitted: Tolerances | None = None

    def compare_arrays(self, name: str, actual: Array, expected: Array, case: str, *, is_map: bool = False) -> None:
        """Measure the difference of two arrays, or hold it to the tolerances once they are fitted.

        Raises:
            ExportError: no tolerance could allow it, or that which was fitted does not.
        """
        if actual.shape != expected.shape or not np.isfinite(actual).all():
            wrong = "has values that are not finite" if actual.shape == expected.shape else "has another shape"
            raise ExportError(
                f"as {self._precision} the graph's answer differs from {self.reference}'s: {name} {wrong} ({case})"
            )
        if self._fitted is not None:
            if name in self._stated and (problem := self._fitted.difference(name, actual, expected, is_map=is_map)):
                raise ExportError(f"as {self._precision} the graph's {problem} from {self.reference}'s ({case})")
            return
        self.record(name, actual, expected)
        if not np.issubdtype(expected.dtype, np.floating):
            if not np.array_equal(actual, expected):
                raise ExportError(f"as {self._precision} the graph's {name} differs from {self.reference}'s ({case})")
            return
        if not expected.size:
            return
        spread = self._spreads.setdefault(name, _Spread())
        apart = np.abs(actual.astype(np.float64) - expected)
        if is_map:
            allowed = self._default(name)
            apart = np.maximum(apart - allowed.absolute, 0) / np.maximum(row_magnitude(expected), 1e-30)
        scale = np.ones(()) if is_map else output_scale(expected)
        spread.difference = max(spread.difference, float(apart.max()))
        spread.scaled = max(spread.scaled, float((apart / scale).max()))
        spread.scale = max(spread.scale, float(scale.max()))
        possible = possible_values(expected)
        spread.least = min(spread.least, float(possible.min(initial=np.inf)))
        spread.most = max(spread.most, float(possible.max(initial=-np.inf)))

    def fit_tolerances(self) -> None:
        """Set the tolerances to the largest differences, with a margin.

        Raises:
            ExportError: a broken graph could pass them: the difference of an output is too large a share of the range
                of its answers, or that of a map too large a share of a row's largest weight.
        """
        measured = []
        for name in self._stated:
            default, spread = self._default(name), self._spreads.get(name, _Spread())
            limit, of = (
                (_MAX_SHARE_OF_ROW, "its row's largest")
                if name in self._maps
                else (
                    _MAX_SHARE_OF_RANGE * (spread.most - spread.least),
                    f"{spread.most - spread.least:.3g}, the range of its answers",
                )
            )
            least = _MARGIN * spread.scaled
            if spread.difference and (_MARGIN * spread.difference > limit or least > LARGEST_TOLERANCE):
                raise ExportError(
                    f"{self._precision} is too coarse for this model: {name} differs by up to "
                    f"{spread.difference:.3g} from {self.reference}'s, of {of}"
                )
            for provider, margin in ((_CPU, _MARGIN), ("", _OTHER_MARGIN)):
                part = max(least, min(margin * spread.scaled, limit / spread.scale))
                part = max(part, default.relative if name in self._maps else default.absolute)
                measured.append(
                    bundle_pb2.Tolerance(provider=provider, name=name, absolute=default.absolute, relative=part)
                    if name in self._maps
                    else bundle_pb2.Tolerance(provider=provider, name=name, absolute=part, relative=default.relative)
                )
        self.tolerances, self._fitted = measured, Tolerances(measured, _CPU)

    def _default(self, name: str) -> bundle_pb2.Tolerance:
        """Return the float32 tolerance."""
        found = [each for each in self.tolerances if not each.provider and each.name in ("", name)]
        return max(found, key=lambda each: each.name)
