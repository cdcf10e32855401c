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
    outlooks.learn(Outlook(0.5, 9))
    assert abs(outlooks.late(100.2) - 0.3) < 1e-9
    assert outlooks.late(100.6) < 0
    assert outlooks.late(None) == -inf
    clock.now += 0.4  # what waited has been answered since
    assert outlooks.late(100.6) < 0
    outlooks.learn(Outlook(0.0, 0))
    assert outlooks.late(clock.now) == -inf


def test_calls_that_are_on_their_way_count_as_those_that_are_known() -> None:
    outlooks = Outlooks(Clock())
    outlooks.learn(Outlook(0.5, 4))  # a tenth of a second each
    under_way = [outlooks.under_way() for _ in range(9)]
    for each in under_way:
        each.__enter__()
    assert abs(outlooks.late(100.0) - 1.0) < 1e-9
    for each in under_way:
        each.__exit__(None, None, None)
    assert abs(outlooks.late(100.0) - 0.5) < 1e-9
