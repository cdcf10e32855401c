"""The statistics of differences between mechanisms and models: intervals, corrected tests, smallest differences.

Both answer the same examples and begin from the same seeds, so that differences are taken pair by pair.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma
from scipy.stats import norm, t

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


@dataclass(frozen=True)
class Prior:
    """The seeds' variance of a comparison before it is looked at: scaled inverse χ², of `freedom` degrees of freedom
    around `variance`. Of none, a comparison's own seeds say all.
    """

    freedom: float = 0.0
    variance: float = 0.0

    def moderated(self, variance: float, freedom: int) -> float:
        """The variance of a comparison, with its own of so many degrees of freedom (Smyth 2004, eq. 3)."""
        return (self.freedom * self.variance + freedom * variance) / (self.freedom + freedom)


_MOST_FREEDOM = 100.0  # where variances do not differ more than chance has it


def prior(variances: Sequence[float], freedoms: Sequence[int]) -> Prior:
    """Estimate from many comparisons how their seeds' variances lie, by the moments of the logarithms (Smyth 2004,
    §6.2). Their spread counts as a standard error more than it is, as too few degrees of freedom cost power and too
    many cost the level. Those that are 0 have no logarithm, and are left out, which makes the rest larger.
    """
    known = [(value, freedom) for value, freedom in zip(variances, freedoms, strict=True) if value > 0]
    if len(known) < 3:
        return Prior()
    logs, half = np.log([value for value, _ in known]), np.array([freedom for _, freedom in known]) / 2
    each = logs - digamma(half) + np.log(half)
    squares = (each - each.mean()) ** 2
    beyond = float(each.var(ddof=1) + 2 * squares.std() / math.sqrt(len(each)) - polygamma(1, half).mean())
    least = float(polygamma(1, _MOST_FREEDOM / 2))
    freedom = 2.0 * brentq(lambda value: polygamma(1, value) - max(beyond, least), 1e-3, _MOST_FREEDOM)
    return Prior(freedom, math.exp(each.mean() + digamma(freedom / 2) - math.log(freedom / 2)))


_PLACES = norm.ppf((np.arange(400) + 0.5) / 400)  # at equal chances


@dataclass(frozen=True)
class Estimate:
    """A mean difference whose error has two parts: Student's of the seeds, with `freedom` degrees of freedom and the
    variance `of_seeds`, and a normal one of the examples, with the variance `of_examples`. Both are of the mean.
    """

    mean: float
    of_seeds: float
    freedom: float
    of_examples: float = 0.0

    def p_value(self, null: float = 0.0) -> float:
        """Of the hypothesis that the difference is `null`, two-sided."""
        return min(1.0, 2 * self._beyond(abs(self.mean - null)))

    @property
    def interval(self) -> tuple[float, float]:
        """95 %."""
        most = 1e3 * math.sqrt(self.of_seeds + self.of_examples)
        spread = brentq(lambda size: self._beyond(size) - (1 - LEVEL) / 2, 0, most) if most else 0.0
        return self.mean - spread, self.mean + spread

    def _beyond(self, size: float) -> float:
        """The chance of an error above this size."""
        if not self.of_seeds:
            return float(norm.sf(size, scale=math.sqrt(self.of_examples))) if self.of_examples else 0.5 * (not size)
        of_seeds = (size - math.sqrt(self.of_examples) * _PLACES) / math.sqrt(self.of_seeds)
        return float(t.sf(of_seeds, self.freedom).mean())


def estimate(values: Sequence[float], of: Prior, shared: float = 0.0, own: float = 0.0) -> Estimate:
    """The mean of differences, one for each seed, of two or more.

    A paired hierarchical bootstrap, seeds and then examples, of which only the variances are drawn: those of seeds are
    moderated by what other comparisons have (`Prior`), as three seeds alone say little of how far a fourth may lie.
    shared: the variance that examples bring to all seeds alike, as the same are held out. own: what they bring to each
    seed, which its variance has already and is never below.
    """
    seeds = len(values)
    variance = max(of.moderated(float(np.var(values, ddof=1)), seeds - 1), own)
    return Estimate(float(np.mean(values)), variance / seeds, of.freedom + seeds - 1, shared)


def parts(drawn: np.ndarray) -> tuple[float, float]:
    """The variance that examples bring to all seeds alike, and to each: `shared` and `own` of `estimate`.

    Shapes: differences [draw, seed], where a draw takes the same examples for every seed, of two seeds or more.
    """
    seeds = drawn.shape[1]
    of_mean, of_each = float(drawn.mean(1).var()), float(drawn.var(0).mean())
    return max(0.0, (seeds * of_mean - of_each) / (seeds - 1)), max(0.0, (of_each - of_mean) * seeds / (seeds - 1))


def smallest_difference(effects: Sequence[Effect]) -> float:
    """The difference that a test at 5 % finds four times out of five, at the median standard error of some effects."""
    return (Z_TEST + Z_POWER) * float(np.median([each.error for each in effects]))
