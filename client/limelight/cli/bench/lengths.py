"""Distributions of the lengths of texts."""

import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from limelight.base.commands import CommandError

COUNT = 256
"""Number of different inputs that are made of a distribution."""
_LONGEST = 100_000
_FORMS = (
    ("fixed", re.compile(r"(\d+)")),
    ("uniform", re.compile(r"(\d+):(\d+)")),
    ("log-normal", re.compile(r"(\d+)~(\d+(?:\.\d+)?)")),
)


@dataclass(frozen=True)
class Lengths:
    """A distribution of numbers of words.

    kind: "fixed" (first), "uniform" (first to second), or "log-normal" (median, standard deviation of the logarithm).
    """

    kind: str
    first: int
    second: float = 0.0

    def draw(self, chance: random.Random) -> int:
        """Draw a length of at least one word."""
        match self.kind:
            case "uniform":
                return chance.randint(self.first, int(self.second))
            case "log-normal":
                return min(_LONGEST, max(1, round(self.first * math.exp(chance.gauss(0.0, self.second)))))
        return self.first


def read_lengths(text: str) -> Lengths:
    """Read `32`, `8:128` (uniform) or `28~0.7` (log-normal: median, sigma). Raises CommandError."""
    for kind, pattern in _FORMS:
        if found := pattern.fullmatch(text):
            first, second = int(found[1]), float(found[2]) if found.lastindex == 2 else 0.0
            if 1 <= first <= _LONGEST and (kind != "uniform" or first <= second <= _LONGEST) and second <= _LONGEST:
                return Lengths(kind, first, second)
    raise CommandError(
        f"--lengths takes words as N, MIN:MAX or MEDIAN~SIGMA, each from 1 to {_LONGEST:,}, not {text!r}", status=2
    )


def texts(source: str, lengths: Lengths, seed: int) -> Iterator[str]:
    """Yield texts of drawn lengths, of the words of a text in its order, from drawn places on."""
    chance, words = random.Random(seed), source.split() or ["word"]
    while True:
        place = chance.randrange(len(words))
        yield " ".join(words[(place + offset) % len(words)] for offset in range(lengths.draw(chance)))
