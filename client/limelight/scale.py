"""The colour scale of a figure: from weights to strengths of colour, and the numbers at its ends."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Weights below this multiple of equal weights never get the strongest colour.
CONTRAST = 4.0
# No shade below this strength: noise would shade every word.
FAINT = 0.02


@dataclass(frozen=True)
class Scale:
    """A scale from `low`, which has no colour, to `high`, which has the strongest; from -high if it is signed."""

    low: float
    high: float
    signed: bool = False
    is_relative: bool = False
    """Whether `low` is the weight of each entry if all had the same."""
    is_falling: bool = False
    """Whether smaller values have the larger strength."""

    def strengths(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the strength of each weight: -1 to 1 if signed, else 0 to 1. NaN has none."""
        span = self.high - self.low
        if not span > 0:
            return np.zeros_like(weights)
        strengths: NDArray[np.float32] = np.clip(
            (np.nan_to_num(weights, nan=self.low) - self.low) / span, -1.0 if self.signed else 0.0, 1.0
        ).astype(np.float32)
        return -strengths if self.is_falling else strengths

    @property
    def ends(self) -> tuple[str, str]:
        """The numbers at the ends, as text, that of the largest strength last."""
        low, high = -self.high if self.signed else self.low, f"{self.high:.3g}"
        ends = f"equal {low:.3g}" if self.is_relative else f"{low:.3g}", high
        return ends[::-1] if self.is_falling else ends


def scale_of(largest: float, *, signed: bool, equal: float | None) -> Scale:
    """Return the scale of a figure.

    Where weights are shares of a whole, equal weights have no colour and slightly unequal ones little of it, so that a
    map that looks everywhere has no peaks.

    Args:
        largest: magnitude of the largest value.
        equal: the weight of each entry if all had the same; None for values that are no shares.
    """
    if signed or equal is None:
        return Scale(0.0, largest, signed)
    return Scale(equal, max(largest, min(1.0, CONTRAST * equal)), is_relative=True)
