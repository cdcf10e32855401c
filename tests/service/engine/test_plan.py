"""The plan: every row runs once or is dropped, limits hold, nobody starves, models share."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from service.engine.plan import LinearCost, ModelQueue, Policy, joined, plan_batches
from service.engine.shapes import Shape, places


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
    """A policy of one lane that batches freely, but for the changes."""
    values = {"max_rows": 8, "max_tokens": 1000, "max_padding": 1.0, "concurrent": 1, "spread": 1, **changes}
    return Policy(**values)  # type: ignore[arg-type]


def rows(*lengths: int) -> list[Row]:
    """Rows of one axis, in order of arrival."""
    return [Row(ticket, Shape(((length,),))) for ticket, length in enumerate(lengths)]


def chosen(waiting: Sequence[Row], rules: Policy) -> list[int]:
    """Tickets of the one batch that a lane gets."""
    (batch,) = plan_batches([ModelQueue("m", waiting, rules)], 0.0, idle=1).batches
    return [row.ticket for row in batch.rows]


def test_the_oldest_row_is_joined_by_those_of_its_length_and_not_by_others() -> None:
    assert chosen(rows(30, 128, 30, 31, 5), policy(max_padding=0.03)) == [0, 2, 3]
    assert chosen(rows(30, 128, 30, 31, 5), policy(max_padding=0.0)) == [0, 2]


def test_a_batch_is_bounded_by_rows_and_by_padded_tokens() -> None:
    assert chosen(rows(10, 10, 10, 10), policy(max_rows=3)) == [0, 1, 2]
    assert chosen(rows(10, 12, 10), policy(max_tokens=24)) == [0, 2]
    assert chosen(rows(10, 12), policy(max_tokens=24)) == [0, 1]
    assert chosen(rows(10, 12), policy(max_tokens=23)) == [0]


def test_a_row_larger_than_a_batch_may_be_runs_alone() -> None:
    assert chosen(rows(5000, 10), policy(max_tokens=100)) == [0]


def test_only_rows_of_one_group_share_a_batch() -> None:
    assert chosen([Row(0, NINE, "a"), Row(1, NINE, "b"), Row(2, NINE, "a")], policy()) == [0, 2]


def test_lanes_share_what_waits() -> None:
    waiting = rows(*[10] * 8)
    two = plan_batches([ModelQueue("m", waiting, policy(concurrent=2, spread=2))], 0.0, idle=2)
    assert [[row.ticket for row in batch.rows] for batch in two.batches] == [[0, 1, 2, 3], [4, 5]]


def test_padding_counts_both_axes_of_a_document() -> None:
    documents = [Row(ticket, Shape((size,))) for ticket, size in enumerate([(2, 10), (10, 2), (2, 10)])]
    assert chosen(documents, policy(max_padding=0.5)) == [0, 2]
    (batch,) = plan_batches([ModelQueue("m", documents[:2], policy())], 0.0, idle=1).batches
    assert (batch.shape, batch.real_tokens, batch.padding_tokens) == (Shape(((10, 10),)), 40, 160)


def test_what_is_late_or_abandoned_is_dropped_and_takes_no_place() -> None:
    waiting = [Row(0, NINE, deadline=5.0), Row(1, NINE, abandoned=True), Row(2, NINE, deadline=5.1)]
    planned = plan_batches([ModelQueue("m", waiting, policy())], 5.0, idle=1)
    assert [row.ticket for row in planned.dropped] == [0, 1]
    assert [row.ticket for row in planned.batches[0].rows] == [2]
    assert plan_batches([ModelQueue("m", waiting[:2], policy())], 6.0, idle=0).dropped == tuple(waiting[:2])


def test_a_session_that_runs_one_batch_at_a_time_gets_no_second() -> None:
    assert not plan_batches([ModelQueue("m", rows(3), policy(concurrent=1), running=1)], 0.0, idle=1).batches


def test_the_model_that_had_less_time_goes_first_and_an_idle_one_earns_no_claim() -> None:
    old, new = ModelQueue("old", rows(3), policy(), served=2.0), ModelQueue("new", rows(3), policy(), served=1.0)
    assert [batch.model for batch in plan_batches([old, new], 0.0, idle=2).batches] == ["new", "old"]
    assert joined(0.0, [7.0, 5.0]) == 5.0
    assert joined(9.0, [5.0]) == 9.0
    assert joined(3.0, []) == 3.0


a_row = st.tuples(
    st.lists(st.integers(1, 12), min_size=2, max_size=2),
    st.integers(0, 200),
    st.sampled_from("ab"),
    st.sampled_from([1.0, 9.0]),
    st.booleans(),
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
queues = st.lists(st.tuples(st.lists(a_row, max_size=12), policies, st.floats(0, 10)), min_size=1, max_size=3)


def build(drawn: list[tuple[list[tuple[list[int], int, str, float, bool]], Policy, float]]) -> list[ModelQueue[Row]]:
    """Queues with tickets that rise over all models."""
    tickets = iter(range(1000))
    return [
        ModelQueue(
            f"m{number}",
            [
                Row(next(tickets), Shape((tuple(size),), edges), group, deadline, gone)
                for size, edges, group, deadline, gone in waiting
            ],
            rules,
            LinearCost(),
            served,
        )
        for number, (waiting, rules, served) in enumerate(drawn)
    ]


@given(queues, st.integers(0, 4))
def test_rows_are_batched_once_or_dropped_or_wait_and_limits_hold(drawn: list, idle: int) -> None:  # type: ignore[type-arg]
    built = build(drawn)
    planned = plan_batches(built, 5.0, idle=idle)
    assert planned == plan_batches(built, 5.0, idle=idle)
    assert len(planned.batches) <= idle
    seen = [row.ticket for batch in planned.batches for row in batch.rows] + [row.ticket for row in planned.dropped]
    assert len(seen) == len(set(seen))
    everything = {row.ticket: row for queue in built for row in queue.waiting}
    dead = {ticket for ticket, row in everything.items() if row.abandoned or row.deadline <= 5.0}
    assert {row.ticket for row in planned.dropped} == dead
    by_name = {queue.model: queue for queue in built}
    for batch in planned.batches:
        rules = by_name[batch.model].policy
        own = {row.ticket for row in by_name[batch.model].waiting}
        assert {row.ticket for row in batch.rows} <= own
        assert len({row.group for row in batch.rows}) == 1
        assert len(batch.rows) <= rules.max_rows
        widest = tuple(max(row.shape.padded[0][axis] for row in batch.rows) for axis in range(2))
        assert batch.shape == Shape((widest,), sum(row.shape.joined for row in batch.rows))
        if len(batch.rows) > 1:
            padded = places(batch.shape, len(batch.rows))
            assert padded <= rules.max_tokens
            assert batch.padding_tokens <= rules.max_padding * padded + 1e-9
    for name, queue in by_name.items():
        assert sum(batch.model == name for batch in planned.batches) <= queue.policy.concurrent


@given(queues)
def test_everything_runs_in_the_end_and_the_oldest_of_a_model_always_next(drawn: list) -> None:  # type: ignore[type-arg]
    waiting = {queue.model: [row for row in queue.waiting if not row.abandoned] for queue in build(drawn)}
    rules = {queue.model: queue.policy for queue in build(drawn)}
    served = {queue.model: queue.served for queue in build(drawn)}
    rounds = sum(map(len, waiting.values()))
    for _ in range(rounds):
        built = [ModelQueue(name, left, rules[name], LinearCost(), served[name]) for name, left in waiting.items()]
        for batch in plan_batches(built, 0.0, idle=1).batches:
            assert batch.rows[0] == waiting[batch.model][0]
            waiting[batch.model] = [row for row in waiting[batch.model] if row not in batch.rows]
            served[batch.model] += batch.seconds
    assert not any(waiting.values())


@given(st.lists(st.integers(1, 50), min_size=40, max_size=60), st.lists(st.integers(1, 50), min_size=40, max_size=60))
def test_two_busy_models_get_the_same_time_within_a_batch(first: list[int], second: list[int]) -> None:
    waiting = {"a": rows(*first), "b": rows(*second)}
    served = {"a": 0.0, "b": 0.0}
    largest = 0.0
    for _ in range(20):
        built = [
            ModelQueue(name, left, policy(max_rows=2), LinearCost(), served[name]) for name, left in waiting.items()
        ]
        (batch,) = plan_batches(built, 0.0, idle=1).batches
        waiting[batch.model] = [row for row in waiting[batch.model] if row not in batch.rows]
        served[batch.model] += batch.seconds
        largest = max(largest, batch.seconds)
    assert abs(served["a"] - served["b"]) <= largest + 1e-9
