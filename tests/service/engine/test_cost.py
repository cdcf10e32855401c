"""Learned costs are those that were seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_service.engine.scheduling.cost import LearnedCost, LearnedMean


@given(st.floats(0, 0.1), st.floats(1e-6, 1e-2), st.lists(st.integers(1, 4096), min_size=2, max_size=60))
def test_a_line_is_found_again(fixed: float, per_place: float, seen: list[int]) -> None:
    cost = LearnedCost()
    for places in seen:
        cost.learn(places, fixed + per_place * places)
    for places in seen:
        assert cost.seconds(places) == pytest.approx(fixed + per_place * places, rel=0.02)


@given(st.lists(st.tuples(st.integers(0, 4096), st.floats(0, 10)), max_size=60), st.integers(0, 10**6))
def test_whatever_was_seen_more_places_never_cost_less_and_nothing_costs_less_than_nothing(
    seen: list[tuple[int, float]], places: int
) -> None:
    cost = LearnedCost()
    for each in seen:
        cost.learn(*each)
    assert 0 <= cost.seconds(places) <= cost.seconds(places + 100)


def test_the_latest_counts_most() -> None:
    cost, mean = LearnedCost(), LearnedMean(7.0)
    for _ in range(100):
        cost.learn(10, 1.0)
        mean.learn(1.0)
    for _ in range(200):
        cost.learn(10, 3.0)
        mean.learn(3.0)
    assert cost.seconds(10) == pytest.approx(3.0, rel=0.05)
    assert mean.value == pytest.approx(3.0, rel=0.05)


def test_until_a_second_batch_was_seen_the_prior_holds() -> None:
    cost, mean = LearnedCost(prior=0.5), LearnedMean(7.0)
    for _ in range(2):
        assert not cost.is_known
        assert cost.seconds(4) == 2.0
        cost.learn(4, 60.0)
    assert cost.is_known
    assert cost.seconds(4) == pytest.approx(60.0)
    assert mean.value == 7.0
    mean.learn(3.0)
    assert mean.value == 3.0


def test_a_batch_during_which_the_process_stood_still_teaches_next_to_nothing() -> None:
    cost = LearnedCost()
    for _ in range(100):
        cost.learn(10, 0.002)
    cost.learn(10, 12.0)
    assert cost.seconds(10) < 0.003


def test_what_was_learned_while_the_process_stood_still_is_forgotten_at_the_next_batch() -> None:
    cost = LearnedCost()
    cost.learn(10, 12.0)
    cost.learn(10, 0.002)
    assert cost.seconds(10) == pytest.approx(0.002)


def test_what_stays_slow_is_believed() -> None:
    cost = LearnedCost()
    for _ in range(100):
        cost.learn(10, 0.002)
    for _ in range(100):
        cost.learn(10, 2.0)
    assert cost.seconds(10) > 1.0
