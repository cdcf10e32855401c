"""The queue of all models: who goes next, what is expected, and that nothing of a model stays behind."""

import itertools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight_bundle.reader import BundleFolder
from limelight_service.engine.jobs import Job, RowEvent, detached_call
from limelight_service.engine.model import FirstRun, Model
from limelight_service.engine.policy import Policy
from limelight_service.engine.runtime.warm_up import warm_up
from limelight_service.engine.scheduling.queue import Scheduler, Work
from limelight_service.engine.types import Query
from tests.kit import bundles


@pytest.fixture
def tickets() -> Iterator[int]:
    """Tickets of one engine."""
    return itertools.count()


def a_model(models: dict[str, Model], name: str = "a", **policy: float) -> Model:
    """A model of its own, whose batches hold one row unless a policy says otherwise."""
    rules = {"max_rows": 1, "max_tokens": 1000, "max_padding": 1.0, "concurrent": 2, "spread": 1, **policy}
    return replace(models["tiny"], name=name, policy=Policy(**rules))  # type: ignore[arg-type]


def jobs(
    model: Model, folder: BundleFolder, tickets: Iterator[int], *lengths: int, deadline: float | None = None
) -> list[Job]:
    """Rows of so many tokens."""
    rows = tuple(bundles.row(folder, ids=[3] * length) for length in lengths)
    return model.jobs(detached_call(model.seeded(Query(rows, deadline=deadline))), tickets, 0)


def taken(queue: Scheduler, now: float = 0.0) -> Work:
    """Batch that a worker takes; there must be one."""
    work, dropped = queue.take(now)
    assert work is not None
    assert not dropped
    return work


def test_the_first_estimate_is_what_the_warm_up_took(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    quick = replace(a_model(models), first_run=FirstRun())
    warm_up(quick, folders["tiny"])
    assert 0 < quick.first_run.place < 0.25
    for first, expected in ((FirstRun(1e-6), 100 * 5e-6), (FirstRun(1e-2), 100 * 5e-2), (FirstRun(), 100 * 5e-4)):
        queue, model = Scheduler(1), replace(quick, first_run=first)
        queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * 100))
        assert queue.waiting_seconds() == pytest.approx(expected)


def test_models_take_turns_by_the_time_they_took(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, slow, quick = Scheduler(2), a_model(models, "slow"), a_model(models, "quick")
    queue.add(slow, jobs(slow, folders["tiny"], tickets, *[5] * 10))
    queue.add(quick, jobs(quick, folders["tiny"], tickets, *[5] * 40))
    had = {"slow": 0.0, "quick": 0.0}
    for _ in range(22):
        work = taken(queue)
        seconds = 1.0 if work.model is slow else 0.1
        queue.finished(work, seconds)
        had[work.model.name] += seconds
    assert abs(had["slow"] - had["quick"]) <= 1.0


def test_a_model_that_was_idle_earns_no_claim_on_the_workers(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, busy, late = Scheduler(2), a_model(models, "busy"), a_model(models, "late")
    queue.add(busy, jobs(busy, folders["tiny"], tickets, *[5] * 10))
    for _ in range(5):
        queue.finished(taken(queue), 1.0)
    queue.add(late, jobs(late, folders["tiny"], tickets, *[5] * 5))
    names = []
    for _ in range(4):
        work = taken(queue)
        names.append(work.model.name)
        queue.finished(work, 1.0)
    assert sorted(names) == ["busy", "busy", "late", "late"]


def test_only_what_is_alone_gets_every_core(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(2), a_model(models)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    first = taken(queue)
    assert first.wide
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    second = taken(queue)
    assert not second.wide  # the first still runs
    queue.finished(first, 0.1)
    queue.finished(second, 0.1)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    third = taken(queue, 0.01)
    assert not third.wide  # two took turns a moment ago
    queue.finished(third, 0.1)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    fourth = taken(queue, 0.1)
    assert fourth.wide
    queue.finished(fourth, 0.1)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5, 5))
    assert not taken(queue, 1.0).wide  # another row waits


def test_what_is_expected_grows_with_what_waits_and_is_nothing_on_an_idle_machine(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(2), a_model(models)
    assert queue.expected_seconds(model, 1) == 0
    queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * 20))
    for _ in range(8):
        queue.finished(taken(queue), 0.25)
    running = [taken(queue), taken(queue)]
    expected = queue.expected_seconds(model, 1)
    assert expected == pytest.approx(0.25 * (10 + 1 + 1) / 2, rel=0.05)  # those that wait, itself, half of two
    assert queue.expected_seconds(model, 4) > expected + 0.3
    for work in running:
        queue.finished(work, 0.25)


def test_another_busy_model_counts_as_far_as_it_gets_its_turns(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model, other = Scheduler(2), a_model(models), a_model(models, "other")
    for each in (model, other, model, other):
        queue.add(each, jobs(each, folders["tiny"], tickets, 5))
        queue.finished(taken(queue), 0.25)
    queue.add(other, jobs(other, folders["tiny"], tickets, *[5] * 100))
    running = [taken(queue), taken(queue)]
    assert queue.expected_seconds(model, 1) == pytest.approx(0.25, rel=0.05)  # its turn, and one of the other
    assert queue.expected_seconds(other, 1) > 10
    for work in running:
        queue.finished(work, 0.25)


def test_a_small_batch_waits_for_more_rows_while_others_run_and_rows_come_together(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(2), a_model(models, max_rows=8)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    running = taken(queue)  # nothing else runs: nothing to wait for
    for count in (8, 2, 8, 2):  # 2 ms a batch and 0.1 ms a place
        queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * count))
        queue.finished(taken(queue, 1.0), 0.002 + 0.0001 * 5 * count)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    assert queue.take(0.0005) == (None, [])
    assert queue.due == pytest.approx(0.001, rel=0.1)
    queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * 5))
    together = taken(queue, 0.0005)
    assert len(together.rows) == 6
    queue.finished(together, 0.005)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    assert len(taken(queue, 0.0011).rows) == 1
    assert running.wide


def test_what_full_batches_would_have_saved_is_counted(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(2), a_model(models, max_rows=8)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    taken(queue)  # beside which no other has every core

    def run(rows: int) -> float:
        """Run a batch of 2 ms and 0.1 ms a place."""
        queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * rows))
        before = queue.unfilled
        queue.finished(taken(queue, 1.0), 0.002 + 0.0001 * 5 * rows)
        return queue.unfilled - before

    run(1)  # one size alone does not tell the two parts apart
    assert run(8) == 0
    assert [run(rows) for rows in (8, 4, 1)] == pytest.approx([0, 0.001, 0.00175], rel=1e-3)


def test_a_row_waits_for_no_company_where_rows_come_alone_but_for_now_and_then(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(2), a_model(models, max_rows=8)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    taken(queue)
    for count in (2, 1, 1, 1, 1):
        queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * count))
        queue.finished(taken(queue, 1.0), 0.002 + 0.0001 * 5 * count)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    assert len(taken(queue, 0.0).rows) == 1


def test_workers_share_the_rows_that_wait_and_run_but_not_with_those_that_other_models_have(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, other = Scheduler(2), a_model(models, "other")
    model = a_model(models, "a", max_rows=8, spread=2)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    first = taken(queue)
    queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * 7))
    second = taken(queue)
    assert [len(each.rows) for each in (first, second)] == [1, 4]
    queue.finished(first, 0.001)
    third = taken(queue)
    assert len(third.rows) == 3
    for each in (second, third):
        queue.finished(each, 0.001)
    queue.add(other, jobs(other, folders["tiny"], tickets, 5))
    assert taken(queue).model is other
    queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * 6))
    assert len(taken(queue, 0.1).rows) == 6


def test_a_row_whose_deadline_is_over_is_dropped(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(2), a_model(models)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    queue.finished(taken(queue), 1.0)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5, 5, deadline=10.0))
    work, dropped = queue.take(10.1)
    assert work is None
    assert [model for model, _ in dropped] == [model, model]
    assert (queue.rows, queue.running) == (0, 0)


def test_nothing_of_a_model_stays_when_it_is_forgotten(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(2), a_model(models)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    assert not queue.forget(model)  # a row of it waits
    queue.finished(taken(queue), 1.0)
    assert queue.forget(model)
    assert queue.take(0.0) == (None, [])
    gone = weakref.ref(model)
    del model
    assert gone() is None


@settings(max_examples=50)
@given(data=st.data())
def test_every_row_runs_once_or_is_dropped_or_taken_out(
    models: dict[str, Model], folders: dict[str, BundleFolder], data: st.DataObject
) -> None:
    queue, tickets = Scheduler(2), itertools.count()
    served = [a_model(models, str(number), max_rows=3, spread=2) for number in range(3)]
    added: list[Job] = []
    ended: list[Job] = []
    running: list[Work] = []
    for now in range(data.draw(st.integers(1, 25))):
        match data.draw(st.sampled_from(["add", "take", "take", "finish", "remove"])):
            case "add":
                model = data.draw(st.sampled_from(served))
                lengths = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
                deadline = data.draw(st.sampled_from([None, now + 1.5, now + 9.5]))
                own = jobs(model, folders["tiny"], tickets, *lengths, deadline=deadline)
                queue.add(model, own)
                added += own
            case "take":
                work, dropped = queue.take(float(now))
                ended += [job for _, job in dropped]
                if work is not None:
                    running.append(work)
                    ended += work.rows
            case "finish" if running:
                queue.finished(running.pop(), 0.01)
            case "remove" if added:
                job = data.draw(st.sampled_from(added))
                if queue.remove(served[0], [job]):
                    ended.append(job)
        assert queue.running == len(running)
        assert queue.rows == len(added) - len(ended)
    while running:
        queue.finished(running.pop(), 0.01)
    while queue.rows:
        work, dropped = queue.take(0.0)
        ended += [job for _, job in dropped]
        if work is not None:
            ended += work.rows
            queue.finished(work, 0.01)
    assert sorted(job.ticket for job in ended) == sorted(job.ticket for job in added)
    assert all(queue.expected_seconds(model, 1) == 0 for model in served)


class FakeBatch:
    """Rows that each take three steps. pace: seconds that each has been taking."""

    def __init__(self, pace: float = 0.0) -> None:
        self.steps: dict[int, int] = {}
        self.pace = pace

    def itself(self) -> "FakeBatch":
        return self

    @property
    def rows(self) -> int:
        """Those with steps left."""
        return len(self.steps)

    def is_due(self, now: float) -> bool:
        """Whenever there is a row."""
        return bool(self.steps)

    @property
    def room(self) -> int:
        """For two rows in all."""
        return 2 - len(self.steps)

    def join(self, jobs: Sequence[Job], wide: bool = False) -> list[RowEvent]:
        """Take them in."""
        self.steps |= {job.ticket: 3 for job in jobs}
        return []

    def step(self, wide: bool = False) -> list[RowEvent]:
        """One step of each."""
        self.steps = {ticket: left - 1 for ticket, left in self.steps.items() if left > 1}
        return []


def a_turn(queue: Scheduler, work: Work) -> None:
    """Steps of a worker with a continuous batch."""
    assert work.continuous_batch is not None
    if work.rows:
        work.continuous_batch.join(work.rows)
    work.continuous_batch.step()
    queue.finished(work, 0.01, 1, 0.01)


def test_rows_join_a_continuous_batch_between_two_steps_as_long_as_it_has_room(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, batches = Scheduler(2), [FakeBatch()]
    model = replace(a_model(models, concurrent=1, max_rows=8), continuous_batch=lambda: batches[0])
    queue.add(model, jobs(model, folders["tiny"], tickets, 5))
    joined = []
    for turn in range(6):
        if turn == 1:
            queue.add(model, jobs(model, folders["tiny"], tickets, 5, 5))
        work = taken(queue)
        assert queue.take(0.0) == (None, [])  # one worker at a time has the batch
        joined.append([job.ticket for job in work.rows])
        a_turn(queue, work)
    assert joined == [[0], [1], [], [2], [], []]
    assert queue.take(0.0) == (None, [])


def test_a_generation_is_expected_to_take_as_long_as_its_streams_hold_its_steps_up(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    expected = {}
    for pace in (0.0, 0.5):
        queue, batch = Scheduler(1), FakeBatch(pace)
        model = replace(a_model(models, concurrent=1, max_rows=8), continuous_batch=batch.itself)
        queue.add(model, jobs(model, folders["tiny"], tickets, 5, 5))
        for _ in range(2):
            a_turn(queue, taken(queue))
        running = taken(queue)
        expected[pace] = queue.expected_seconds(model, 1)
        queue.finished(running, 0.01, 1, 0.01)
    assert expected[0.0] < 1  # sixteen steps of some 0.01 s
    assert expected[0.5] >= 16 * 0.5


def test_a_generation_is_expected_to_take_as_long_as_the_event_loop_needs_for_its_tokens(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, batch = Scheduler(1), FakeBatch()
    model = replace(a_model(models, concurrent=1, max_rows=8), continuous_batch=batch.itself)
    queue.add(model, jobs(model, folders["tiny"], tickets, 5, 5))
    for _ in range(2):
        a_turn(queue, taken(queue))
    running = taken(queue)
    assert queue.expected_seconds(model, 1, 0.001) == queue.expected_seconds(model, 1)
    assert queue.expected_seconds(model, 1, 0.5) >= 16 * 0.5
    queue.finished(running, 0.01, 1, 0.01)


def test_a_first_run_that_stood_still_makes_nobody_wait_in_vain(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    alone = a_model(models)
    generating = replace(alone, continuous_batch=FakeBatch(pace=5.0).itself)
    for model in (alone, generating):
        queue = Scheduler(1)
        queue.add(model, jobs(model, folders["tiny"], tickets, 5, 5, 5))
        work = taken(queue)
        if work.continuous_batch is not None:
            work.continuous_batch.join(work.rows)
        queue.finished(work, 5.0, work.continuous_batch is not None, 5.0)
        running = taken(queue)
        assert queue.expected_seconds(model, 1) < 1
        queue.finished(running, 5.0, running.continuous_batch is not None, 5.0)
        running = taken(queue)
        assert queue.expected_seconds(model, 1) > 5  # what happens twice is believed
        queue.finished(running, 5.0)


def test_rows_that_were_cut_do_not_make_answers_seem_shorter(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    """If only short answers are in time, the long ones are those that were cut."""
    expected = {}
    for cut in (0, 9):
        queue, batch = Scheduler(1), FakeBatch()
        model = replace(a_model(models, concurrent=1, max_rows=8), continuous_batch=batch.itself)
        for _ in range(20):
            queue.add(model, jobs(model, folders["tiny"], tickets, 5))
            queue.finished(taken(queue), 0.0, 1, 0.01, ended=[2], cut=[1] * cut)
            batch.steps.clear()
        queue.add(model, jobs(model, folders["tiny"], tickets, 5))
        running = taken(queue)
        expected[cut] = queue.expected_seconds(model, 1)
        queue.finished(running, 0.0, 1, 0.01)
    assert expected[9] > 3 * expected[0]


def test_continuous_batchs_take_turns_with_other_models_and_share_their_rows(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, made = Scheduler(2), list[FakeBatch]()

    def make() -> FakeBatch:
        made.append(FakeBatch())
        return made[-1]

    generating, other = (
        replace(a_model(models, "generating", max_rows=8, spread=2), continuous_batch=make),
        a_model(models),
    )
    queue.add(generating, jobs(generating, folders["tiny"], tickets, *[5] * 4))
    queue.add(other, jobs(other, folders["tiny"], tickets, *[5] * 10))
    first, second = taken(queue), taken(queue)
    assert {first.model.name, second.model.name} == {"generating", "a"}
    names = []
    for work in (first, second):
        if work.continuous_batch is None:
            queue.finished(work, 0.02)
        else:
            a_turn(queue, work)
    while queue.rows or any(batch.rows for batch in made):
        work = taken(queue)
        names.append(work.model.name)
        if work.continuous_batch is None:
            queue.finished(work, 0.02)
        else:
            a_turn(queue, work)
    assert len(made) == 2
    assert names[:6].count("generating") == 3


def test_batches_are_halved_where_memory_ran_out_and_grow_again(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(1), a_model(models, max_rows=64, max_tokens=1000, concurrent=1)
    forty = model.seeded(Query((bundles.row(folders["tiny"], ids=[3] * 10),) * 40))

    def batch() -> Work:
        waiting = model.jobs(detached_call(forty), tickets, 0)
        queue.add(model, waiting)
        work = taken(queue)
        queue.remove(model, waiting)
        return work

    def rows() -> int:
        work = batch()
        queue.finished(work, 0.1)
        return len(work.rows)

    assert rows() == 40
    work = batch()
    queue.out_of_memory(model, work.rows)
    queue.out_of_memory(model, work.rows[:20])
    queue.finished(work, 0.1)
    assert rows() == 10
    sizes = [rows() for _ in range(250)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 40


def test_where_batches_are_staged_the_next_grows_until_it_is_full_or_almost_due(
    models: dict[str, Model], folders: dict[str, BundleFolder], tickets: Iterator[int]
) -> None:
    queue, model = Scheduler(2), a_model(models, max_rows=4, max_tokens=1000, concurrent=2, staged=True)

    def come(count: int) -> None:
        queue.add(model, jobs(model, folders["tiny"], tickets, *[5] * count))

    for _ in range(2):
        come(1)
        queue.finished(taken(queue), 0.1)  # so a batch takes 0.1 s
    come(1)
    first = taken(queue, 10.0)
    come(1)
    assert queue.take(10.01) == (None, [])
    assert queue.due == pytest.approx(10.05)
    second = taken(queue, 10.06)
    come(3)
    assert queue.take(10.07)[0] is None  # two at a time
    queue.finished(first, 0.1)  # so the second one begins
    assert queue.take(10.1)[0] is None
    assert queue.due == pytest.approx(10.15)
    come(1)
    third = taken(queue, 10.11)  # full
    assert [len(work.rows) for work in (first, second, third)] == [1, 1, 4]
    queue.finished(second, 0.1)
    queue.finished(third, 0.1)
    come(1)
    assert len(taken(queue, 10.3).rows) == 1  # nothing computes: nothing waits
