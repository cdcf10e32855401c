"""The plan of one batch: every row runs once or is dropped, limits hold, the oldest goes first."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from limelight_service.engine.policy import Policy
from limelight_service.engine.scheduling.plan import joined, plan_batch
from limelight_service.engine.shapes import Shape, places


@dataclass(frozen=True)
class Row:
    """A row that waits."""

    ticket: int
    shape: Shape
    group: str = ""
    deadline: float = float("inf")
    abandoned: bool = False


NINE = Shape(((9,),))


def policy(**changes: float) -> Policy:
    """A policy of one worker that batches freely, but for the changes."""
    values = {"max_rows": 8, "max_tokens": 1000, "max_padding": 1.0, "concurrent": 1, "spread": 1, **changes}
    return Policy(**values)  # type: ignore[arg-type]


def rows(*lengths: int) -> list[Row]:
    """Rows of one axis, in order of arrival."""
    return [Row(ticket, Shape(((length,),))) for ticket, length in enumerate(lengths)]


def chosen(waiting: Sequence[Row], rules: Policy) -> list[int]:
    """Tickets of the batch that a worker gets."""
    batch = plan_batch(waiting, rules, 0.0).batch
    assert batch is not None
    return [row.ticket for row in batch.rows]


def test_the_oldest_row_is_joined_by_those_of_its_length_and_not_by_others() -> None:
    assert chosen(rows(30, 128, 30, 31, 5), policy(max_padding=0.03)) == [0, 2, 3]
    assert chosen(rows(30, 128, 30, 31, 5), policy(max_padding=0.0)) == [0, 2]


def test_a_batch_is_bounded_by_rows_and_by_padded_tokens() -> None:
    assert chosen(rows(10, 10, 10, 10), policy(max_rows=3)) == [0, 1, 2]
    assert chosen(rows(10, 12, 10), policy(max_tokens=24)) == [0, 2]
    assert chosen(rows(10, 12), policy(max_tokens=24)) == [0, 1]
    assert chosen(rows(10, 12), policy(max_tokens=23)) == [0]


def test_a_packed_batch_is_bounded_by_how_it_is_laid_out_and_costs_its_real_tokens() -> None:
    packed = [Row(ticket, Shape((), 0, ((length,),), length)) for ticket, length in enumerate((40, 100, 30, 9, 90))]
    batch = plan_batch(packed, policy(max_padding=0.5, max_tokens=300), 0.0).batch
    assert batch is not None
    assert [row.ticket for row in batch.rows] == [0, 2, 3]
    assert (batch.tokens, batch.real_tokens, batch.padding_tokens) == (79, 79, 0)


def test_a_row_larger_than_a_batch_may_be_runs_alone() -> None:
    assert chosen(rows(5000, 10), policy(max_tokens=100)) == [0]


def test_only_rows_of_one_group_share_a_batch() -> None:
    assert chosen([Row(0, NINE, "a"), Row(1, NINE, "b"), Row(2, NINE, "a")], policy()) == [0, 2]


def test_workers_share_what_waits() -> None:
    assert chosen(rows(*[10] * 8), policy(spread=2)) == [0, 1, 2, 3]
    assert chosen(rows(*[10] * 3), policy(spread=2)) == [0, 1]
    assert chosen(rows(10), policy(spread=2)) == [0]
    beside = plan_batch(rows(*[10] * 7), policy(spread=2), 0.0, elsewhere=1).batch
    assert beside is not None
    assert len(beside.rows) == 4


def test_padding_counts_both_axes_of_a_document() -> None:
    documents = [Row(ticket, Shape((size,))) for ticket, size in enumerate([(2, 10), (10, 2), (2, 10)])]
    assert chosen(documents, policy(max_padding=0.5)) == [0, 2]
    batch = plan_batch(documents[:2], policy(), 0.0).batch
    assert batch is not None
    assert (batch.shape, batch.real_tokens, batch.padding_tokens) == (Shape(((10, 10),)), 40, 160)


def test_what_is_late_or_abandoned_is_dropped_and_takes_no_place() -> None:
    waiting = [Row(0, NINE, deadline=5.0), Row(1, NINE, abandoned=True), Row(2, NINE, deadline=5.1)]
    planned = plan_batch(waiting, policy(), 5.0)
    assert [row.ticket for row in planned.dropped] == [0, 1]
    assert planned.batch is not None
    assert [row.ticket for row in planned.batch.rows] == [2]
    assert plan_batch(waiting[:2], policy(), 6.0).batch is None


def test_an_idle_model_earns_no_claim() -> None:
    assert joined(0.0, [7.0, 5.0]) == 5.0
    assert joined(9.0, [5.0]) == 9.0
    assert joined(3.0, []) == 3.0


rows_that_wait = st.lists(
    st.tuples(
        st.lists(st.integers(1, 12), min_size=2, max_size=2),
        st.integers(0, 200),
        st.sampled_from("ab"),
        st.sampled_from([1.0, 9.0]),
        st.booleans(),
    ),
    max_size=20,
).map(
    lambda drawn: [
        Row(ticket, Shape((tuple(size),), edges), group, deadline, gone)
        for ticket, (size, edges, group, deadline, gone) in enumerate(drawn)
    ]
)
policies = st.builds(
    Policy,
    max_rows=st.integers(1, 6),
    max_tokens=st.integers(1, 600),
    max_padding=st.floats(0, 1),
    concurrent=st.integers(1, 3),
    spread=st.integers(1, 3),
    window=st.integers(1, 5),
)


@given(rows_that_wait, policies)
def test_rows_are_batched_once_or_dropped_or_wait_and_limits_hold(waiting: list[Row], rules: Policy) -> None:
    planned = plan_batch(waiting, rules, 5.0)
    assert planned == plan_batch(waiting, rules, 5.0)
    assert {row.ticket for row in planned.dropped} == {
        row.ticket for row in waiting if row.abandoned or row.deadline <= 5.0
    }
    live = [row for row in waiting if row not in planned.dropped]
    batch = planned.batch
    if batch is None:
        assert not live
        return
    assert batch.rows[0] == live[0]
    assert len(set(batch.rows)) == len(batch.rows) <= rules.max_rows
    assert set(batch.rows) <= set(live)
    assert len({row.group for row in batch.rows}) == 1
    widest = tuple(max(row.shape.padded[0][axis] for row in batch.rows) for axis in range(2))
    assert batch.shape == Shape((widest,), sum(row.shape.joined for row in batch.rows))
    if len(batch.rows) > 1:
        padded = places(batch.shape, len(batch.rows))
        assert padded <= rules.max_tokens
        assert batch.padding_tokens <= rules.max_padding * padded + 1e-9
