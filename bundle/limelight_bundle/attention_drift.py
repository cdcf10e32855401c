"""Drift of attention: how far a served distribution of signals is from the reference, against what chance does alone.

The thresholds are fitted where the reference is made: the reference inputs are drawn again and again, once in the place
of the reference and once in that of served rows, and the largest index of these ordinary samples is kept.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from limelight_bundle.values import Array

FEWEST_INPUTS = 100
"""Inputs that a reference needs; of fewer, chance decides what it looks like."""
MOST_INPUTS = 400
"""Inputs after which more hardly change it."""
MEMORY = 256
"""Served rows after which one counts 1 / e."""
ROWS = (30, 60, 120, 240, 480, 960)
"""Numbers of served rows that thresholds are fitted to; after the last one the memory decides."""

_FEWEST_SHARE = 0.001
_LEAST_THRESHOLD = 0.1  # below it an index counts as no change, whatever chance does
_RESAMPLES = 1000


def stability_index(reference: Array, observed: Array) -> Array:
    """Compute the population stability index of two distributions over bins; 0 where they are equal.

    Σ (o - r) log(o ÷ r) over shares o and r, of which one below 0.001 counts as 0.001.

    Args:
        reference, observed: counts [..., bins], some of the last axis above 0.

    Returns:
        FLOAT64 [...].
    """
    o, r = (np.maximum(each / each.sum(axis=-1, keepdims=True), _FEWEST_SHARE) for each in (observed, reference))
    index: Array = ((o - r) * np.log(o / r)).sum(axis=-1)
    return index


def decayed(before: Array, counts: Array) -> Array:
    """Add the counts of one more row to those of earlier rows, which count less and less."""
    return before * (1 - 1 / MEMORY) + counts


def fitted_thresholds(counts: Array) -> list[float]:
    """Give the largest index that ordinary served rows have, for each number of rows in `ROWS`.

    Args:
        counts: of each reference input [input, bins]; at least one input has some.
    """
    chosen, served = _draws(len(counts))
    references = chosen @ counts
    found = []
    for weights in served:
        observed = weights @ counts
        usable = references.any(axis=1) & observed.any(axis=1)
        indices = stability_index(references[usable], observed[usable])
        found.append(round(max(float(indices.max(initial=0.0)), _LEAST_THRESHOLD), 4))
    return found


@dataclass(frozen=True)
class Reference:
    """One signal of one map over reference inputs. bins: counts [bins]. thresholds: one for each number in `ROWS`."""

    bins: Array
    thresholds: Array

    def drift(self, observed: Array, rows: int) -> float | None:
        """Give the index of served rows ÷ their threshold, which is that of the next smaller number in `ROWS`.

        None for too few rows. observed: counts [bins] of these rows, as `decayed` adds them.
        """
        place = int(np.searchsorted(ROWS, rows, side="right")) - 1
        return float(stability_index(self.bins, observed) / self.thresholds[place]) if place >= 0 else None


@lru_cache(maxsize=2)
def _draws(inputs: int) -> tuple[Array, list[Array]]:
    """Draw reference inputs with replacement: how often each counts, [sample, input].

    Gives those in the place of the reference, and those in the place of each number of served rows.
    """
    chance = np.random.default_rng(0)
    chosen = chance.multinomial(inputs, np.full(inputs, 1 / inputs), size=_RESAMPLES).astype(np.float64)
    served: list[Array] = []
    for rows in ROWS:
        weights = np.zeros((_RESAMPLES, inputs))
        drawn = chance.integers(inputs, size=(_RESAMPLES, rows))
        np.add.at(weights, (np.arange(_RESAMPLES)[:, None], drawn), (1 - 1 / MEMORY) ** np.arange(rows))
        served.append(weights)
    return chosen, served
