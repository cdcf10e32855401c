"""Quotas: over any time, nobody gets more than was granted, and whoever waits as told is let in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_bundle.errors import TooLargeError
from limelight_service.errors import QuotaError
from limelight_service.observability.metrics import Metrics
from limelight_service.security.caller import Caller, Quota
from limelight_service.security.quotas import Quotas
from tests.service.metered import counted


class Clock:
    """A time that only a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


STEPS = st.lists(st.tuples(st.floats(0, 3), st.integers(1, 40)), max_size=60)


@given(rate=st.floats(0.1, 50), steps=STEPS)
def test_rows_never_exceed_the_rate_by_more_than_a_second_and_one_call(
    rate: float, steps: list[tuple[float, int]]
) -> None:
    clock = Clock()
    quotas, caller = Quotas(Metrics(), clock), Caller("a", quota=Quota(rows_per_second=rate))
    quotas.keep({"a"})
    begun = 0
    for pause, rows in steps:
        clock.now += pause
        try:
            quotas.take(caller, rows)()
        except QuotaError as error:
            clock.now += error.retry_after
            quotas.take(caller, rows)()  # whoever waits as told is let in
        begun += rows
        assert begun <= rate * (clock.now - 100) + max(1, rate) + rows + 1e-6


@given(limit=st.integers(1, 20), steps=st.lists(st.tuples(st.booleans(), st.integers(1, 25)), max_size=60))
def test_rows_in_flight_never_exceed_the_limit(limit: int, steps: list[tuple[bool, int]]) -> None:
    quotas, caller = Quotas(Metrics()), Caller("a", quota=Quota(rows_in_flight=limit))
    flying = []
    for ends, rows in steps:
        if ends and flying:
            flying.pop(0)[1]()
            continue
        fits = sum(each for each, _ in flying) + rows <= limit
        try:
            flying.append((rows, quotas.take(caller, rows)))
            assert fits
        except TooLargeError:
            assert rows > limit
        except QuotaError:
            assert not fits


def test_callers_are_counted_apart_and_those_without_a_limit_are_never_refused() -> None:
    quotas = Quotas(Metrics())
    for _ in range(3):
        quotas.take(Caller("free"), 10**6)
    quotas.take(Caller("a", quota=Quota(rows_in_flight=1)), 1)
    quotas.take(Caller("b", quota=Quota(rows_in_flight=1)), 1)
    with pytest.raises(QuotaError):
        quotas.take(Caller("a", quota=Quota(rows_in_flight=1)), 1)


def test_what_is_in_flight_counts_over_a_change_of_the_file() -> None:
    metrics = Metrics()
    quotas = Quotas(metrics)
    quotas.keep({"a"})
    end = quotas.take(Caller("a"), 3)
    quotas.keep({"a"})
    with pytest.raises(QuotaError):
        quotas.take(Caller("a", quota=Quota(rows_in_flight=4)), 2)
    quotas.keep(())
    assert counted(metrics)['limelight_token_inflight_rows{token="a"}'] == 3
    end()
    assert not [name for name in counted(metrics) if 'token="a"' in name]
