"""Bytes that calls hold together are bounded; transient ones by the workers that hold them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_service.admission.memory import MemoryBudget, Transient
from limelight_service.errors import QueueFullError
from limelight_service.observability.metrics import Metrics


def budget(limit: int, workers: int = 1) -> MemoryBudget:
    return MemoryBudget(limit, "answers", Metrics(), workers=workers)


def test_a_call_that_is_alone_always_gets_its_share() -> None:
    with budget(10).take(50):
        pass
    several = budget(10)
    with several.take(50), pytest.raises(QueueFullError), several.take(1):
        pass
    with several.take(1), several.take(9), pytest.raises(QueueFullError), several.take(1):
        pass


def test_what_is_given_back_is_free_for_others() -> None:
    shared = budget(10)
    first = shared.take(8)
    with pytest.raises(QueueFullError, match="8 bytes already, of at most 10"):
        shared.take(3)
    first.keep_only(4)
    second = shared.take(6)
    first.release()
    assert shared.held == 6
    second.release()
    assert shared.held == 0


def test_of_transient_bytes_the_workers_hold_no_more_than_fits_them() -> None:
    shared = budget(1000, workers=2)
    rows = [Transient(400, 100)] * 20  # 4 of them fill a worker
    call = shared.take(10, rows)
    assert shared.held == 10 + 2 * 400
    with pytest.raises(QueueFullError):
        shared.take(0, [Transient(700, 700)])  # fills a worker alone, and takes more than what it drives out
    assert shared.held == 10 + 2 * 400  # nothing is left of what was refused
    small = shared.take(10, [Transient(40, 10)])
    assert shared.held == 20 + 2 * 400
    call.keep_only(5)
    assert shared.held == 15 + 10
    small.release()
    call.release()
    assert shared.held == 0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)))), max_size=8),
    st.integers(1, 3),
)
def test_whatever_comes_and_goes_in_the_end_nothing_is_held(
    calls: list[tuple[int, list[tuple[int, int]]]], workers: int
) -> None:
    shared, taken = budget(10**6, workers), []
    for kept, rows in calls:
        before = shared.held
        taken.append(shared.take(kept, [Transient(many * size, size) for many, size in rows]))
        assert before <= shared.held <= before + kept + sum(size for _, size in rows) + 1  # rounded up
    for each in taken[::2]:
        each.keep_only(1)
    for each in taken:
        each.release()
    assert shared.held == 0
