"""Pools: a row's answer is its own, whoever joins, leaves or fails meanwhile."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight_bundle.errors import BundleError, LimelightError
from limelight_bundle.maps import WEIGHTS
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_service.engine.decoding.continuous_batch import ContinuousBatch, Generation
from limelight_service.engine.decoding.kv_cache import BLOCK, KVCache
from limelight_service.engine.decoding.trace import Trace, Tracer
from limelight_service.engine.jobs import CutError, Job
from limelight_service.engine.model import PATIENCE, Model
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime import device_cache
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.runtime.sessions import Session
from limelight_service.engine.types import Answer, FinishReason, GenerationSettings, Query, Step, Strategy
from limelight_service.errors import DeadlineError, InferenceError, OverrunError
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.kit import bundles
from tests.service.engine.conftest import jobs_of, run_together, weights_of
from tests.service.engine.test_forward import assert_map
from tests.service.engine.test_generation import assert_sequence, ids, rows_of

MAPS = weights_of("encoder.0.self", "decoder.0.cross", "decoder.0.self")
WAYS = (
    GenerationSettings(),
    GenerationSettings(Strategy.SAMPLE),
    GenerationSettings(Strategy.BEAM, beams=3, hypotheses=2),
    GenerationSettings(max_new_tokens=2),
)


@pytest.fixture(scope="session", params=["arrays", "device"])
def model(
    request: pytest.FixtureRequest, models: dict[str, Model], folders: dict[str, BundleFolder], provider: Provider
) -> Model:
    """The model that generates; with its caches in arrays, or mirrored on the CPU as on a device."""
    if request.param == "arrays":
        return models["echo"]
    return on_device(folders["echo"], provider)


def on_device(folder: BundleFolder, provider: Provider) -> Model:
    return open_model(folder, replace(provider, device=("cpu", 0)), Settings(), NullObserver())


def batch_of(model: Model) -> ContinuousBatch:
    """An empty continuous batch."""
    assert isinstance(model.runner, Generation)
    return model.runner.continuous_batch()


class Driver:
    """Drives a continuous batch as a worker does, and keeps the events of each row."""

    def __init__(self, batch: ContinuousBatch) -> None:
        self.batch = batch
        self.told: dict[Job, list[Step | Answer | LimelightError]] = {}

    def join(self, jobs: Sequence[Job]) -> None:
        self.told.update((job, []) for job in jobs)
        self._take(self.batch.join(jobs))

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self._take(self.batch.step())

    def finish(self) -> None:
        while self.batch.rows:
            self.step()

    def end(self, job: Job) -> Answer | LimelightError | Step:
        """The last that a row was told; nothing came behind an answer or an error."""
        assert all(isinstance(each, Step) for each in self.told[job][:-1])
        return self.told[job][-1]

    def answer(self, job: Job) -> Answer:
        found = self.end(job)
        assert isinstance(found, Answer), found
        return found

    def _take(self, happened: Sequence[tuple[Job, Step | Answer | LimelightError]]) -> None:
        for job, event in happened:
            self.told[job].append(event)


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.lists(st.tuples(ids, st.sampled_from(WAYS)), min_size=1, max_size=3), st.integers(0, 5)),
        min_size=1,
        max_size=4,
    ),
    seed=st.integers(0, 2**32),
)
def test_a_row_that_joins_midway_is_answered_as_alone(
    model: Model,
    folders: dict[str, BundleFolder],
    batches: list[tuple[list[tuple[list[int], GenerationSettings]], int]],
    seed: int,
) -> None:
    driver = Driver(batch_of(model))
    asked = []
    for batch, steps in batches:
        jobs = []
        for source, way in batch:
            query = Query(rows_of(folders, source), MAPS, (seed,), generation=way, sequences=2)
            jobs += jobs_of(model, query)
            asked.append((source, query, jobs[-1]))
        driver.join(jobs)
        driver.step(steps)
    driver.finish()
    for source, query, job in asked:
        answer, (alone,) = driver.answer(job), run_together(model, query)
        assert_sequence(answer, source, answer.sequences[0])
        # Rows of a batch do not see each other; rounding may only swap equals.
        scores = [each.score for each in alone.sequences]
        assert [each.score for each in answer.sequences] == pytest.approx(scores, abs=1e-4)
        if query.generation.strategy is not Strategy.BEAM:
            assert answer.sequences[0].token_ids == alone.sequences[0].token_ids
        for sequence, other in zip(answer.sequences[1:], answer.other_sequences, strict=True):
            expected = bundles.echo_maps(np.array(source), sequence.token_ids)
            for name, _ in other.maps:
                assert_map(other.maps[name, WEIGHTS], expected[name])


def test_rows_are_as_many_as_may_share_a_step(model: Model, folders: dict[str, BundleFolder]) -> None:
    driver = Driver(batch_of(model))
    most = driver.batch.room
    first, second = jobs_of(model, Query(rows_of(folders, [4, 5], [6])))
    assert (driver.batch.rows, most) == (0, model.policy.max_rows)
    driver.join([first])
    driver.step()
    driver.join([second])
    assert (driver.batch.rows, driver.batch.room) == (2, most - 2)
    driver.finish()
    assert (driver.batch.rows, driver.batch.room) == (0, most)
    assert [driver.answer(each).batch_rows for each in (first, second)] == [2, 2]


def test_queue_is_until_a_row_joins_and_compute_what_it_had_a_part_in(
    model: Model, folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(10**6, 10**9, 10**3))
    monkeypatch.setattr("limelight_service.engine.decoding.continuous_batch.time.monotonic_ns", lambda: next(clock))
    driver = Driver(batch_of(model))
    (job,) = jobs_of(model, Query(rows_of(folders, [4, 5]), generation=GenerationSettings(max_new_tokens=3)))
    admitted = job.admitted
    driver.join([job])
    for _ in range(100):
        next(clock)  # the worker does something else
    driver.finish()
    timing = driver.answer(job).timing
    assert timing.queue == 10**6 - admitted if admitted < 10**6 else timing.queue < 100 * 10**3
    assert 0 < timing.compute < 100 * 10**3


def test_a_row_that_is_late_or_abandoned_leaves_between_two_steps(
    model: Model, folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1.0]
    monkeypatch.setattr("limelight_service.engine.decoding.continuous_batch.time.monotonic", lambda: now[0])
    driver = Driver(batch_of(model))
    long = [[token] for token in range(1, 14) if len(bundles.echo_answer(np.array([token])).token_ids) > 3]
    (late,) = jobs_of(model, Query(rows_of(folders, long[0]), MAPS, deadline=100.0))
    (gone,) = jobs_of(model, Query(rows_of(folders, long[1]), MAPS))
    (other,) = jobs_of(model, Query(rows_of(folders, [6, 7, 8, 9]), MAPS))
    driver.join([late, gone, other])
    driver.step(2)
    assert driver.batch.rows == 3 and driver.batch.pace == 0.0
    now[0], gone.call.abandoned = 100.0, True
    driver.step()
    assert driver.batch.pace == PATIENCE  # of 99 s: a reader who stops tells nothing of the steps of others
    for job in (late, gone):
        end = driver.end(job)
        assert isinstance(end, CutError) and end.steps == 2
    assert driver.batch.rows == 1
    (never,) = jobs_of(model, Query(rows_of(folders, [4]), deadline=99.0))
    driver.join([never])
    assert isinstance(driver.end(never), DeadlineError) and driver.batch.rows == 1
    driver.finish()
    assert_sequence(driver.answer(other), [6, 7, 8, 9], driver.answer(other).sequences[0])


def test_rows_far_ahead_of_their_streams_are_held_back_for_a_moment(
    model: Model, folders: dict[str, BundleFolder]
) -> None:
    driver = Driver(batch_of(model))
    rows = [jobs_of(model, Query(rows_of(folders, [4, 5])), steps=True)[0] for _ in range(16)]
    driver.join(rows)
    driver.step()
    stepped = time.monotonic()
    for job in rows:  # as the workers do
        job.call.generated += 1
    assert not driver.batch.is_due(stepped)
    for job in rows[:8]:
        job.call.sent += 1
    assert driver.batch.is_due(stepped)
    rows[0].call.generated += 1
    assert not driver.batch.is_due(stepped)
    assert driver.batch.is_due(stepped + PATIENCE)
    for job in rows[-2:]:
        job.call.generated += 100
    assert driver.batch.is_due(stepped)  # streams that do not keep up are not waited for
    for job in rows:
        job.call.generated += 100
    assert not driver.batch.is_due(stepped + PATIENCE)
    rows[5].call.abandoned = True
    assert driver.batch.is_due(stepped + PATIENCE)


def test_rows_whose_tokens_are_not_told_are_not_held_back(model: Model, folders: dict[str, BundleFolder]) -> None:
    driver = Driver(batch_of(model))
    driver.join(jobs_of(model, Query(rows_of(folders, [4, 5], [6]))))
    while driver.batch.rows:
        assert driver.batch.is_due(time.monotonic())
        driver.step()
    assert not driver.batch.is_due(time.monotonic() + PATIENCE)


def test_a_target_of_no_tokens_is_done_when_it_joins(model: Model, folders: dict[str, BundleFolder]) -> None:
    driver = Driver(batch_of(model))
    row = bundles.row(folders["echo"], ids=[4], target_ids=[5])
    empty = replace(row, tensors=dict(row.tensors, target_ids=np.zeros(0, np.int64)))
    (job,) = jobs_of(model, Query((empty,), MAPS))
    driver.join([job])
    assert driver.batch.rows == 0
    (sequence,) = driver.answer(job).sequences
    assert (sequence.token_ids, sequence.finish_reason) == ((), FinishReason.TARGET)


@pytest.fixture
def failing(model: Model, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let the runtime fail in the graphs named here where more than one row is in the batch; `step!` always."""
    graphs: list[str] = []
    run = Session.run

    def fail(self: Session, outputs: Sequence[str], feeds: dict[str, Array], **options: bool) -> list[Array]:
        several = len(feeds.get("token", feeds.get("ids", ()))) > 1
        if (several and self.name in graphs) or f"{self.name}!" in graphs:
            raise InferenceError("the model failed on this input")
        return run(self, outputs, feeds, **options)

    monkeypatch.setattr(Session, "run", fail)
    yield graphs


def test_rows_that_fail_together_go_on_alone(
    model: Model, folders: dict[str, BundleFolder], failing: list[str]
) -> None:
    sources = ([4, 5], [6, 7, 8], [9])
    for graph in ("encoder", "step"):
        driver = Driver(batch_of(model))
        jobs = jobs_of(model, Query(rows_of(folders, *sources), MAPS))
        if graph == "encoder":
            failing.append(graph)
        driver.join(jobs)
        driver.step(2)
        failing.append(graph)
        driver.step()
        assert driver.batch.rows == 3 and not any(driver.told[job] for job in jobs)
        driver.finish()
        failing.clear()
        for source, job in zip(sources, jobs, strict=True):
            assert_sequence(driver.answer(job), source, driver.answer(job).sequences[0])


def test_a_row_that_told_tokens_gets_the_error_and_a_row_that_fails_alone_too(
    model: Model, folders: dict[str, BundleFolder], failing: list[str]
) -> None:
    driver = Driver(batch_of(model))
    (streamed,) = jobs_of(model, Query(rows_of(folders, [4, 5])), steps=True)
    (whole,) = jobs_of(model, Query(rows_of(folders, [6, 7, 8])))
    driver.join([streamed, whole])
    driver.step()
    failing.append("step")
    driver.step()
    assert isinstance(driver.end(streamed), InferenceError) and driver.told[whole] == []
    failing.append("step!")
    driver.step()
    assert isinstance(driver.end(whole), InferenceError) and driver.batch.rows == 0
    failing.append("encoder!")
    (other,) = jobs_of(model, Query(rows_of(folders, [4])))
    driver.join([other])
    assert isinstance(driver.end(other), InferenceError) and driver.batch.rows == 0


class Panic(BaseException):
    """Exception of a library written in Rust: no `Exception`."""


@pytest.mark.parametrize("graph", ["encoder", "step"])
def test_where_a_run_takes_too_long_all_of_its_rows_fail_at_once(
    model: Model, folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch, graph: str
) -> None:
    run, runs = Session.run, []

    def ended(self: Session, outputs: Sequence[str], feeds: dict[str, Array], **options: bool) -> list[Array]:
        if self.name != graph:
            return run(self, outputs, feeds, **options)
        runs.append(self.name)
        raise OverrunError("the model took longer than it may")

    monkeypatch.setattr(Session, "run", ended)
    driver = Driver(batch_of(model))
    jobs = jobs_of(model, Query(rows_of(folders, [4, 5], [6, 7, 8], [9])))
    driver.join(jobs)
    if graph == "step":
        driver.step()
    assert all(isinstance(driver.end(job), OverrunError) for job in jobs)
    assert len(runs) == 1 and driver.batch.rows == 0


@pytest.mark.parametrize("failure", [ValueError("/a/path"), Panic("/a/path")])
def test_what_the_runtime_or_numpy_says_is_not_told(
    model: Model, folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    def fail(self: Session, outputs: Sequence[str], feeds: dict[str, Array], **options: bool) -> list[Array]:
        raise failure

    monkeypatch.setattr(Session, "run", fail)
    driver = Driver(batch_of(model))
    (job,) = jobs_of(model, Query(rows_of(folders, [4])))
    driver.join([job])
    assert str(driver.end(job)) == "the model failed on this input"


def test_a_continuous_batch_keeps_nothing_of_rows_that_left(
    model: Model, folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[KVCache] = []

    def make(*arguments: Any) -> KVCache:
        made.append(KVCache(*arguments))
        return made[-1]

    monkeypatch.setattr("limelight_service.engine.decoding.continuous_batch.KVCache", make)
    driver = Driver(batch_of(model))
    (cache,) = made
    soon = GenerationSettings(max_new_tokens=1)
    (long,) = jobs_of(model, Query(rows_of(folders, list(range(1, 11))), generation=soon))
    (short,) = jobs_of(model, Query(rows_of(folders, [4])))
    driver.join([long, short])
    assert cache.sizes["token"] == 10 and cache.sizes["<entries>"] == BLOCK
    while len(driver.told[long]) == 0:
        driver.step()
    assert cache.sizes["token"] == 1
    driver.finish()
    assert cache.feeds() == {} and cache.sizes == {}


def test_a_cache_grows_past_its_block(folders: dict[str, BundleFolder], models: dict[str, Model]) -> None:
    model = models["echo"]
    target = [4 + place % 9 for place in range(BLOCK)] * 2
    forced = bundles.row(folders["echo"], ids=[4, 5], target_ids=target[:31])
    driver = Driver(batch_of(model))
    (first,) = jobs_of(model, Query((forced,), MAPS))
    driver.join([first])
    driver.step(20)
    longer = replace(forced, tensors=dict(forced.tensors, target_ids=np.array(target)))
    (second,) = jobs_of(model, Query((longer,), MAPS))
    driver.join([second])
    driver.finish()
    for job, length in ((first, 31), (second, 2 * BLOCK)):
        (sequence,) = driver.answer(job).sequences
        assert sequence.token_ids == tuple(target[:length])
        assert_sequence(driver.answer(job), [4, 5], sequence)


def test_outputs_of_steps_are_kept_where_they_are_requested(
    model: Model, folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    traces: list[Trace] = []
    start = Tracer.start

    def spy(tracer: Tracer, row: Row, query: Query) -> Trace:
        traces.append(start(tracer, row, query))
        return traces[-1]

    monkeypatch.setattr(Tracer, "start", spy)
    driver = Driver(batch_of(model))
    (row,) = rows_of(folders, [4, 5, 6])
    asked = [Query((row,), outputs=outputs) for outputs in (None, frozenset(["scores"]), frozenset[str]())]
    jobs = [jobs_of(model, query)[0] for query in asked]
    driver.join(jobs)
    driver.step()
    kept = [list(each.values[0]) for each in traces]
    driver.finish()
    whole, named, nothing = (driver.answer(job) for job in jobs)
    assert kept == [["scores"], ["scores"], []]
    np.testing.assert_array_equal(named.outputs["scores"], whole.outputs["scores"])
    assert "scores" in whole.outputs and "scores" not in nothing.outputs
    assert nothing.sequences[0].token_ids == whole.sequences[0].token_ids


def test_a_step_brings_a_device_nothing_of_a_cache_but_the_newest_entry(
    folders: dict[str, BundleFolder], provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = on_device(folders["echo"], provider)
    brought: list[Array] = []
    put = device_cache.put

    def spy(array: Array, provider: Provider) -> object:
        brought.append(array)
        return put(array, provider)

    monkeypatch.setattr(device_cache, "put", spy)
    driver = Driver(batch_of(model))
    rows = [bundles.row(folders["echo"], ids=each, target_ids=[4, 5, 6, 7, 8]) for each in ([4, 5], [6, 7, 8])]
    first, second = (jobs_of(model, Query((row,), MAPS))[0] for row in rows)
    sizes = []
    for joining in ([first], [], [second], []):
        driver.join(joining)
        driver.step()
        sizes.append(max(each.size for each in brought if each.dtype == np.float32))
        brought.clear()
    # Whole caches where rows came, and then no more.
    assert sizes[0] >= BLOCK * sizes[1] and sizes[2] >= BLOCK * sizes[3]
    driver.finish()
    for job in (first, second):
        assert driver.answer(job).sequences[0].token_ids == (4, 5, 6, 7, 8)


def test_noise_is_of_a_rows_own_seed_and_step_whenever_it_joined(
    tmp_path_factory: pytest.TempPathFactory, provider: Provider
) -> None:
    folder = bundles.echo(tmp_path_factory.mktemp("lucky"), "lucky", lucky=True)
    model = open_model(folder, provider, Settings(), NullObserver())
    rows = [bundles.row(folder, ids=each) for each in ([4, 5], [6, 7, 8, 9, 4], [5])]
    queries = [Query((row,), seeds=(seed,)) for row in rows for seed in (1, 2, None)]
    alone = [run_together(model, query)[0].outputs["scores"] for query in queries]
    driver = Driver(batch_of(model))
    jobs = []
    for query in queries:
        jobs += jobs_of(model, query)
        driver.join(jobs[-1:])
        driver.step()
    driver.finish()
    for job, expected in zip(jobs, alone, strict=True):
        np.testing.assert_allclose(driver.answer(job).outputs["scores"], expected, atol=1e-4)
    assert len({array[0].tobytes() for array in alone}) == len(alone)  # each seed draws its own


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths_input": ""}, "grows: it begins as zeros, and generation has a lengths_input"),
        ({"positions_input": "place"}, "does not take 'place'"),
        ({"prompt_tensor": "ids"}, "a prefill graph, or a prompt, but not both"),
        ({"prefill": "encoder", "prompt_tensor": "ids"}, "does not grow, or encoder does not begin it"),
    ],
)
def test_a_bundle_whose_states_cannot_be_kept_is_refused(
    change: dict[str, str], message: str, folders: dict[str, BundleFolder], provider: Provider
) -> None:
    changed = bundle_pb2.Bundle()
    changed.CopyFrom(folders["echo"].bundle)
    for name, value in change.items():
        setattr(changed.generation, name, value)
    with pytest.raises(BundleError, match=message):
        open_model(replace(folders["echo"], bundle=changed), provider, Settings(), NullObserver())
