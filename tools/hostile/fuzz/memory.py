"""Growth of memory over a run: as a share, once everything kept by design is there, and as bytes a call."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression, median

# What is kept by design fills up in the first calls: NumPy keeps seven free blocks of each size up to a kilobyte, which
# are 3.6 MiB, the states of a tokenizer's regular expression come to 2.1, heads of messages to half a one.
_WARM_PART = 5
_FEWEST = 8


@dataclass(frozen=True)
class Grown:
    """Growth of memory. warm, last: MiB, medians of the first and the last quarter of the rounds after `since` calls.

    slope: bytes a call in the second half of these rounds.
    """

    since: int
    warm: float
    last: float
    slope: float

    @property
    def share(self) -> float:
        """Share of it that came since it was warm."""
        return self.last / self.warm - 1

    def __str__(self) -> str:
        return (
            f"{self.warm:.1f} MiB from {self.since:,} calls on, {self.last:.1f} at the end, {self.share:+.1%}; "
            f"{self.slope:+.1f} bytes a call in the second half"
        )


def grown(calls: Sequence[int], memory: Sequence[float]) -> Grown | None:
    """Tell how memory (MiB at rest) grew over calls; None where there are too few rounds."""
    warm = len(calls) // _WARM_PART
    calls, memory = calls[warm:], memory[warm:]
    if len(memory) < _FEWEST:
        return None
    part, half = len(memory) // 4, len(memory) // 2
    slope, _ = linear_regression(calls[half:], memory[half:])
    return Grown(calls[0], median(memory[:part]), median(memory[-part:]), slope * 2**20)
