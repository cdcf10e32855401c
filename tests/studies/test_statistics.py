"""Significance of differences: against plain loops, by simulation, and for all inputs."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from research.mechanisms.bits import packed, unpacked
from research.mechanisms.statistics import Effect, effect, holm, seed_variance, smallest_difference

values = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@st.composite
def answers(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Right answers of two mechanisms to the same examples, from the same seeds."""
    shape = draw(st.integers(1, 4)), draw(st.integers(2, 30))
    return draw(arrays(bool, shape)), draw(arrays(bool, shape))


@given(values, st.floats(0.001, 0.2))
def test_holm_rejects_what_stepping_down_rejects(found: list[float], level: float) -> None:
    corrected = holm(found)
    rejected = set()
    for rank, place in enumerate(sorted(range(len(found)), key=lambda place: found[place])):
        if found[place] * (len(found) - rank) > level:
            break
        rejected.add(place)
    assert {place for place, p in enumerate(corrected) if p <= level} == rejected


@given(values)
def test_holm_keeps_the_order_and_lowers_nothing(found: list[float]) -> None:
    corrected = holm(found)
    assert all(p <= q <= 1 for p, q in zip(found, corrected, strict=True))
    pairs = sorted(zip(found, corrected, strict=True))
    assert all(q <= later for (_, q), (_, later) in pairwise(pairs))


@given(answers())
def test_an_interval_holds_the_difference_and_turns_round_with_it(found: tuple[np.ndarray, np.ndarray]) -> None:
    ours, theirs = found
    one, other = effect(ours, theirs, draws=400), effect(theirs, ours, draws=400)
    assert one.mean == pytest.approx(ours.mean() - theirs.mean()) == pytest.approx(-other.mean)
    assert one.low - 1e-9 <= one.mean <= one.high + 1e-9
    assert one.error == pytest.approx(other.error, rel=0.2, abs=0.02)


@given(arrays(bool, st.tuples(st.integers(1, 4), st.integers(2, 30))))
def test_a_mechanism_beside_itself_differs_by_nothing(right: np.ndarray) -> None:
    assert effect(right, right, draws=50) == Effect(0.0, 0.0, 0.0, 1.0, 0.0, len(right))


def test_with_one_seed_it_is_the_bootstrap_over_examples() -> None:
    generator = np.random.default_rng(1)
    ours, theirs = generator.random((1, 150)) < 0.7, generator.random((1, 150)) < 0.5
    difference = ours[0].astype(int) - theirs[0].astype(int)
    means = []
    for _ in range(4000):
        means.append(np.mean([difference[place] for place in generator.integers(150, size=150)]))
    found = effect(ours, theirs)
    assert (found.low, found.high) == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.015)
    assert found.error == pytest.approx(np.std(means), rel=0.05)


def test_the_variance_of_seeds_is_that_of_the_analysis_of_variance() -> None:
    generator = np.random.default_rng(2)
    table = generator.integers(-1, 2, size=(4, 50)) + np.array([[0], [1], [0], [3]])
    mean = table.mean()
    of_seeds = sum(50 * (table[seed].mean() - mean) ** 2 for seed in range(4)) / 3
    of_rest = 0.0
    for seed in range(4):
        for place in range(50):
            of_rest += (table[seed, place] - table[seed].mean() - table[:, place].mean() + mean) ** 2
    assert seed_variance(table) == pytest.approx((of_seeds - of_rest / (3 * 49)) / 50)
    assert seed_variance(np.tile(table[:1], (3, 1))) == 0


@pytest.mark.parametrize(("seeds", "spread"), [(3, 0.0), (3, 0.06), (5, 0.03)])
def test_intervals_hold_the_truth_as_often_as_they_say(seeds: int, spread: float) -> None:
    generator, true, held = np.random.default_rng(3), 0.1, 0
    for number in range(200):
        hard = generator.random(200) < 0.5  # of half of the examples fewer are right, whoever answers
        base = np.where(hard, 0.3, 0.6)
        ours = base + true + generator.normal(0, spread, (seeds, 1))
        theirs = base + generator.normal(0, spread, (seeds, 1))
        right = [generator.random((seeds, 200)) < np.clip(each, 0, 1) for each in (ours, theirs)]
        found = effect(right[0], right[1], draws=500, seed=number)
        held += found.low <= true <= found.high
    assert 0.90 <= held / 200 <= 1


def test_a_difference_of_the_smallest_size_is_found_four_times_out_of_five() -> None:
    generator = np.random.default_rng(4)

    def drawn(size: float, number: int) -> Effect:
        right = [generator.random((1, 400)) < share for share in (0.6 + size / 2, 0.6 - size / 2)]
        return effect(right[0], right[1], draws=400, seed=number)

    size = smallest_difference([drawn(0, number) for number in range(20)])
    assert size == pytest.approx(2.802 * math.sqrt(2 * 0.24 / 400), rel=0.1)
    assert np.mean([drawn(size, number).low > 0 for number in range(300)]) == pytest.approx(0.8, abs=0.07)


@given(arrays(bool, st.integers(0, 70)))
def test_right_answers_are_read_as_they_were_written(right: np.ndarray) -> None:
    np.testing.assert_array_equal(unpacked(packed(right), len(right)), right)


def test_no_interval_goes_beyond_what_shares_can_differ_by() -> None:
    always, never = np.ones((2, 50), bool), np.zeros((2, 50), bool)
    unstable = np.stack([always[0], never[0]])  # one seed solved it, the other did not
    found = effect(unstable, never)
    assert found.mean == 0.5 and (found.low, found.high) == (-1.0, 1.0)
