"""The statistics of differences between mechanisms: intervals, corrected tests, smallest detectable differences.

Both answer the same examples and begin from the same seeds, so that differences are taken pair by pair.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

DRAWS = 4_000
LEVEL = 0.95
Z_TEST, Z_POWER = norm.ppf(0.975), norm.ppf(0.8)  # of 5 % on two sides, of 80 %


@dataclass(frozen=True)
class Effect:
    """A mean difference with its 95 % interval. p: two-sided, that it is 0. error: its standard error.

    seeds: how many both have; with one, the interval says nothing of other seeds.
    """

    mean: float
    low: float
    high: float
    p: float
    error: float
    seeds: int


def effect(ours: np.ndarray, theirs: np.ndarray, draws: int = DRAWS, seed: int = 0) -> Effect:
    """The difference of two mechanisms that answered the same examples, by a paired hierarchical bootstrap.

    Each draw takes examples with replacement, the same for all seeds, and adds what a mean over other seeds may differ
    by. That is drawn from Student's t with the seeds' own variance: a handful of seeds, resampled, has tails too light
    for an interval that is to hold 95 times of 100. Shapes: bool [seed, example], seeds in the same order.
    """
    difference = ours.astype(np.int8) - theirs.astype(np.int8)
    generator = np.random.default_rng(seed)
    drawn = of_examples(difference, draws, generator)
    variance, seeds = float(drawn.var()), len(difference)
    if seeds > 1:
        of_seeds = seed_variance(difference) / seeds
        drawn = drawn + math.sqrt(of_seeds) * generator.standard_t(seeds - 1, draws)
        variance += of_seeds
    low, high = np.quantile(drawn.clip(-1, 1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()  # all that shares can be
    beyond = min((drawn <= 0).sum(), (drawn >= 0).sum())
    p = min(1.0, 2 * (1 + int(beyond)) / (1 + draws))
    return Effect(float(difference.mean()), low, high, p, math.sqrt(variance), seeds)


def of_examples(difference: np.ndarray, draws: int, generator: np.random.Generator) -> np.ndarray:
    """Means over all seeds of examples that are drawn with replacement, [draw].

    Examples of one sum over the seeds are one kind: only how many of each kind are drawn counts.
    """
    kinds, counts = np.unique(difference.sum(0), return_counts=True)
    total = int(counts.sum())
    found: np.ndarray = generator.multinomial(total, counts / total, size=draws) @ kinds / (total * len(difference))
    return found


def seed_variance(difference: np.ndarray) -> float:
    """The variance of seeds alone: that of their means, less what chance among their answers explains.

    (MS_seed - MS_rest) / examples, at least 0, in the analysis of variance of seeds × examples (Searle et al. 1992,
    §4.7); drawing examples has the rest already.
    """
    seeds, examples = difference.shape
    by_seed, by_example, mean = difference.mean(1), difference.mean(0), difference.mean()
    rest = difference - by_seed[:, None] - by_example + mean
    of_seeds = examples * ((by_seed - mean) ** 2).sum() / (seeds - 1)
    of_rest = (rest**2).sum() / ((seeds - 1) * (examples - 1))
    return max(0.0, float(of_seeds - of_rest) / examples)


def holm(p_values: Sequence[float | None]) -> list[float]:
    """Adjust p values for being several (Holm 1979); 1 where there is none."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted, most = [1.0] * len(p_values), 0.0
    for rank, (p, place) in enumerate(known):
        most = max(most, min(1.0, p * (len(known) - rank)))
        adjusted[place] = most
    return adjusted


def smallest_difference(effects: Sequence[Effect]) -> float:
    """The difference that a test at 5 % finds four times out of five, at the median standard error of some effects."""
    return (Z_TEST + Z_POWER) * float(np.median([each.error for each in effects]))
