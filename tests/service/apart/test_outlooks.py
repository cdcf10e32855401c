"""Which calls are refused before they are handed on."""

from math import inf

from service.apart.outlooks import Outlooks
from service.engine.types import Outlook


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_call_is_late_by_what_was_said_last() -> None:
    clock = Clock()
    outlooks = Outlooks(clock)
    assert outlooks.late(100.0) == -inf  # nothing is known
    outlooks.learn(Outlook(0.5, 9, beside=True))
    assert abs(outlooks.late(100.2) - 0.3) < 1e-9
    assert outlooks.late(100.6) < 0
    assert outlooks.late(None) == -inf
    clock.now += 0.4  # what waited has been answered since
    assert outlooks.late(100.6) < 0
    outlooks.learn(Outlook(0.0, 0))
    assert outlooks.late(clock.now) == -inf


def test_calls_that_are_on_their_way_count_as_those_that_are_known() -> None:
    outlooks = Outlooks(Clock())
    outlooks.learn(Outlook(0.5, 4, beside=True))  # a tenth of a second each
    under_way = [outlooks.under_way() for _ in range(9)]
    for each in under_way:
        each.__enter__()
    assert abs(outlooks.late(100.0) - 1.0) < 1e-9
    for each in under_way:
        each.__exit__(None, None, None)
    assert abs(outlooks.late(100.0) - 0.5) < 1e-9


def test_after_a_refusal_the_queue_is_kept_short_for_a_while() -> None:
    clock = Clock()
    outlooks = Outlooks(clock)
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


def test_who_has_little_time_has_the_queue_kept_short_for_nobody_else() -> None:
    clock = Clock()
    outlooks = Outlooks(clock)
    outlooks.learn(Outlook(0.5, 9))
    assert outlooks.late(100.01) > 0
    assert outlooks.late(100.6) < 0
    assert outlooks.late(100.4) > 0
    for _ in range(5):
        clock.now += 2.0
        outlooks.learn(Outlook(0.2, 9))
        assert outlooks.late(clock.now + 0.01) > 0
    assert outlooks.late(clock.now + 0.4) < 0  # nor for longer than it would have been


def test_generations_are_beside_each_other() -> None:
    outlooks = Outlooks(Clock())
    outlooks.learn(Outlook(0.5, 9, beside=True))
    assert outlooks.late(100.4) > 0
    assert outlooks.late(100.6) < 0
