"""How far a converted graph is from PyTorch: measured, and allowed with a margin, or refused."""

from dataclasses import dataclass

import numpy as np

from bundle.tolerance import row_magnitude
from bundle.v1 import bundle_pb2
from bundle.values import Array
from export.conversion.precision import Precision
from export.errors import ExportError
from export.interface import map_keys
from export.verification.comparison import Comparison
from models.cards.card import Card

_MARGIN = 2.0
# Other providers add up in another order, between roundings that are much coarser than float32's.
_MARGIN_ELSEWHERE = 4.0
# An output that is the same for every input misses one of them by half the range of the answers.
_MOST_OF_RANGE = 0.25
# A map in which another place is looked at misses by the row's largest weight.
_MOST_OF_ROW = 0.5
_CPU = "CPUExecutionProvider"


@dataclass
class _Far:
    """The largest difference, of maps as a share of the row's largest; and the range of the answers."""

    difference: float = 0.0
    least: float = np.inf
    most: float = -np.inf


class Measured(Comparison):
    """Compares what converted graphs answer with what PyTorch answers, and finds the tolerances that hold for it."""

    def __init__(self, card: Card, precision: Precision) -> None:
        super().__init__(card)
        self._precision = precision
        self._maps = frozenset(map_keys(card))
        self._stated = [*(each.name for each in card.description.outputs), *map_keys(card)]
        self._far: dict[str, _Far] = {}

    def arrays(self, name: str, actual: Array, expected: Array, case: str, *, is_map: bool = False) -> None:
        """Measure two arrays. Raises: ExportError where no tolerance could allow the difference."""
        if actual.shape != expected.shape or not np.isfinite(actual).all():
            wrong = "has numbers that are not finite" if actual.shape == expected.shape else "has another shape"
            raise ExportError(
                f"as {self._precision} the graph does not answer as PyTorch does: {name} {wrong} ({case})"
            )
        self.note(name, actual, expected)
        if not np.issubdtype(expected.dtype, np.floating):
            if not np.array_equal(actual, expected):
                raise ExportError(f"as {self._precision} the graph gives another {name} than PyTorch does ({case})")
            return
        if not expected.size:
            return
        far = self._far.setdefault(name, _Far())
        apart = np.abs(actual.astype(np.float64) - expected)
        if is_map:
            allowed = self._default(name)
            apart = np.maximum(apart - allowed.absolute, 0) / np.maximum(row_magnitude(expected), 1e-30)
        far.difference = max(far.difference, float(apart.max()))
        far.least, far.most = min(far.least, float(expected.min())), max(far.most, float(expected.max()))

    def settle(self) -> None:
        """Set the tolerances to what was measured, with a margin.

        Raises: ExportError where a broken graph could pass them: those of an output would be more than a quarter of the
        range of its answers, or those of a map more than half of a row's largest weight.
        """
        measured = []
        for name in self._stated:
            default, far = self._default(name), self._far.get(name, _Far())
            limit, of = (
                (_MOST_OF_ROW, "its row's largest")
                if name in self._maps
                else (
                    _MOST_OF_RANGE * (far.most - far.least),
                    f"{far.most - far.least:.3g}, the range of its answers",
                )
            )
            if far.difference and _MARGIN * far.difference > limit:
                raise ExportError(
                    f"{self._precision} is too coarse for this model: {name} is up to {far.difference:.3g} from "
                    f"PyTorch's, of {of}"
                )
            for provider, margin in ((_CPU, _MARGIN), ("", _MARGIN_ELSEWHERE)):
                part = min(margin * far.difference, limit)
                part = max(part, default.relative if name in self._maps else default.absolute)
                measured.append(
                    bundle_pb2.Tolerance(provider=provider, name=name, absolute=default.absolute, relative=part)
                    if name in self._maps
                    else bundle_pb2.Tolerance(provider=provider, name=name, absolute=part, relative=default.relative)
                )
        self.tolerances = measured

    def _default(self, name: str) -> bundle_pb2.Tolerance:
        """Give the tolerance that float32 has."""
        found = [each for each in self.tolerances if not each.provider and each.name in ("", name)]
        return max(found, key=lambda each: each.name)
