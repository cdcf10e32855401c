"""The learned cost of a model's rows: the time of the latest batches, as an estimate for the next ones."""

from dataclasses import dataclass, field

# How much all batches before count beside the newest: about the last 50 matter.
_KEPT = 0.98
# One batch that took so many times its expected time stood still with the whole process, or met a busy machine: it
# counts as one that took so long, and many of them are believed as well. A batch that took so much less says that all
# before was learned at such a time.
_ODD = 8.0


@dataclass
class LearnedCost:
    """Seconds of a worker for a batch: a fixed part, and one for each place, fitted to the latest batches.

    Attributes:
        prior: seconds a place, until two batches were seen: one alone may have stood still, and nothing tells.

    Not thread-safe.
    """

    prior: float = 1e-4
    _seen: int = 0
    _sums: list[float] = field(default_factory=lambda: [0.0] * 5)
    _fixed: float = 0.0
    _per_place: float = 0.0

    @property
    def is_known(self) -> bool:
        """True once two batches were seen."""
        return self._seen > 1

    @property
    def fixed(self) -> float:
        """Seconds of a batch that its size does not change: each row saves them that joins another's batch."""
        return self._fixed

    def seconds(self, places: float) -> float:
        """Estimate the seconds of a batch of so many places, padding included."""
        return self._fitted(places) if self.is_known else places * self.prior

    def learn(self, places: int, seconds: float) -> None:
        """Take account of a batch that ran."""
        if self._seen:
            weight, x, y, _, _ = self._sums
            expected, usual, larger = self._fitted(places), y / weight, places / max(1.0, x / weight)
            seconds = min(seconds, _ODD * max(expected, usual * max(1.0, larger)))
            if seconds * _ODD < min(expected, usual * min(1.0, larger)):
                self._sums = [0.0] * 5
        self._seen += 1
        seen = (1.0, float(places), seconds, float(places) ** 2, places * seconds)
        self._sums = sums = [_KEPT * old + new for old, new in zip(self._sums, seen, strict=True)]
        weight, x, y, xx, xy = sums
        spread = weight * xx - x * x
        # Batches of one size alone do not tell the two parts apart: then all of it is taken to grow with the places.
        slope = (weight * xy - x * y) / spread if spread > 1e-6 * weight * xx else -1.0
        fixed = (y - slope * x) / weight
        if slope < 0 or fixed < 0:
            slope, fixed = (y / x if x else 0.0), (0.0 if x else y / weight)
        self._per_place, self._fixed = slope, fixed

    def _fitted(self, places: float) -> float:
        return self._fixed + places * self._per_place


@dataclass
class LearnedMean:
    """A mean of the latest values. Not thread-safe."""

    value: float
    _weight: float = 0.0

    def learn(self, value: float) -> None:
        """Take account of one more."""
        self._weight = _KEPT * self._weight + 1.0
        self.value += (value - self.value) / self._weight
