"""Which calls are refused before they are handed on."""

from collections.abc import Iterator
from contextlib import ExitStack
from math import inf

import pytest

from service.apart.outlooks import Outlooks
from service.engine.types import Outlook


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def calls() -> Iterator[ExitStack]:
    """Calls that stay under way until the test is over."""
    with ExitStack() as stack:
        yield stack


def busy(calls: ExitStack, clock: Clock) -> Outlooks:
    """Outlooks of a kind of which one call is under way."""
    outlooks = Outlooks(clock)
    calls.enter_context(outlooks.under_way())
    return outlooks


def test_a_call_is_late_by_what_was_said_last(calls: ExitStack) -> None:
    clock = Clock()
    outlooks = busy(calls, clock)
    assert outlooks.late(100.0) == -inf  # nothing is known
    outlooks.learn(Outlook(0.5, 9, beside=True))
    assert abs(outlooks.late(100.2) - 0.3) < 1e-9
    assert outlooks.late(100.6) < 0
    assert outlooks.late(None) == -inf
    clock.now += 0.4  # what waited has been answered since
    assert outlooks.late(100.6) < 0
    outlooks.learn(Outlook(0.0, 0))
    assert outlooks.late(clock.now) == -inf


def test_calls_that_are_on_their_way_count_as_those_that_are_known_up_to_twice_the_time(calls: ExitStack) -> None:
    outlooks = busy(calls, Clock())
    outlooks.learn(Outlook(0.5, 4, beside=True))  # a tenth of a second each
    for _ in range(6):
        calls.enter_context(outlooks.under_way())
    assert abs(outlooks.late(100.0) - 0.8) < 1e-9
    for _ in range(1000):  # calls that share batches do not take as long each as one alone
        calls.enter_context(outlooks.under_way())
    assert abs(outlooks.late(100.0) - 1.0) < 1e-9


def test_where_none_is_under_way_one_is_always_handed_on() -> None:
    outlooks = Outlooks(Clock())
    outlooks.learn(Outlook(1000.0, 9))
    assert outlooks.late(100.1) == -inf
    with outlooks.under_way():
        assert outlooks.late(100.1) > 0
    assert outlooks.late(100.1) == -inf


def test_after_a_refusal_the_queue_is_kept_short_for_a_while(calls: ExitStack) -> None:
    clock = Clock()
    outlooks = busy(calls, clock)
    outlooks.learn(Outlook(0.5, 9))
    assert outlooks.late(100.6) < 0
    assert abs(outlooks.late(100.4) - 0.4) < 1e-9  # not in time, so from now on a quarter of the time is left for it
    assert abs(outlooks.late(100.6) - 0.35) < 1e-9
    assert outlooks.late(101.0) < 0  # who has far more time waits as before
    clock.now += 3.0
    outlooks.learn(Outlook(0.2, 9))
    assert outlooks.late(clock.now + 0.6) > 0
    assert outlooks.late(clock.now + 0.85) < 0
    clock.now += 3.0
    outlooks.learn(Outlook(0.5, 9))
    assert outlooks.late(clock.now + 0.6) < 0


def test_who_has_little_time_has_the_queue_kept_short_for_nobody_else(calls: ExitStack) -> None:
    clock = Clock()
    outlooks = busy(calls, clock)
    outlooks.learn(Outlook(0.5, 9))
    assert outlooks.late(100.01) > 0
    assert outlooks.late(100.6) < 0
    assert outlooks.late(100.4) > 0
    for _ in range(5):
        clock.now += 2.0
        outlooks.learn(Outlook(0.2, 9))
        assert outlooks.late(clock.now + 0.01) > 0
    assert outlooks.late(clock.now + 0.4) < 0  # nor for longer than it would have been


def test_generations_are_beside_each_other(calls: ExitStack) -> None:
    outlooks = busy(calls, Clock())
    outlooks.learn(Outlook(0.5, 9, beside=True))
    assert outlooks.late(100.4) > 0
    assert outlooks.late(100.6) < 0
