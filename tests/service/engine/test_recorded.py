"""Batches padded to recorded shapes, in fixed places of memory: on the CPU, which runs what a GPU would play back."""

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundle.reader import BundleFolder
from service.engine.model import Model, open_model
from service.engine.observer import NullObserver
from service.engine.providers import Provider
from service.engine.recorded import LENGTHS, ROWS, Bucket, Recorder, bucket_of, buckets, lengths_up_to
from service.engine.selftest import check_samples
from service.engine.types import Query
from service.settings import Settings
from tests.service import bundles
from tests.service.engine.conftest import run_together

RECORDS = Provider("CPUExecutionProvider", 2, 2, staged=True, device=("cpu", 0), records=True)


def opened(folder: BundleFolder) -> Model:
    """A model whose recordings are made."""
    model = open_model(folder, RECORDS, Settings(), NullObserver())
    check_samples(model, folder)
    return model


@pytest.fixture(scope="module")
def long_folder(tmp_path_factory: pytest.TempPathFactory) -> BundleFolder:
    """The reader of texts, for longer ones than are recorded."""
    return bundles.tiny(tmp_path_factory.mktemp("long"), max_tokens=150)


@pytest.fixture(scope="module")
def recorded(long_folder: BundleFolder) -> Model:
    """The same, loaded."""
    return opened(long_folder)


@pytest.fixture(scope="module")
def plain(long_folder: BundleFolder, provider: Provider) -> Model:
    """The same, without recordings."""
    return open_model(long_folder, provider, Settings(), NullObserver())


class Played:
    """The shapes that were played back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.buckets: list[Bucket] = []
        play = Recorder.play

        def spy(recorder: Recorder, bucket: Bucket, feeds: dict[str, Any]) -> list[np.ndarray] | None:
            found = play(recorder, bucket, feeds)
            if found is not None:
                self.buckets.append(bucket)
            return found

        monkeypatch.setattr(Recorder, "play", spy)


@given(st.integers(1, 12), st.integers(1, 200), st.integers(0, 300))
def test_a_batch_goes_into_the_smallest_shape_that_holds_it(rows: int, length: int, longest: int) -> None:
    lengths = lengths_up_to(longest)
    fitting = [each for each in buckets(lengths) if each.rows >= rows and each.length >= length]
    assert bucket_of(rows, length, lengths) == min(fitting, default=None)
    assert all(each.length <= longest for each in buckets(lengths)) or not longest


def test_the_shapes_are_few_and_the_longest_is_among_them() -> None:
    assert len(buckets(lengths_up_to(0))) == len(ROWS) * len(LENGTHS) == 16
    assert lengths_up_to(50) == (16, 32, 50)


texts = st.lists(st.tuples(st.integers(1, bundles.VOCABULARY - 1), st.integers(1, 150)), min_size=1, max_size=10)


@settings(max_examples=25, deadline=None)
@given(batch=texts)
def test_a_recorded_batch_is_answered_as_any_other(
    recorded: Model, plain: Model, long_folder: BundleFolder, batch: list[tuple[int, int]]
) -> None:
    ids = [[(seed + place) % bundles.VOCABULARY for place in range(length)] for seed, length in batch]
    query = Query(tuple(bundles.row(long_folder, ids=each) for each in ids))
    for found, expected in zip(run_together(recorded, query), run_together(plain, query), strict=True):
        for name, array in expected.outputs.items():
            np.testing.assert_allclose(found.outputs[name], array, rtol=1e-4, atol=1e-5)


def test_only_predictions_that_fit_are_played_back(
    recorded: Model, long_folder: BundleFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(monkeypatch)
    row = bundles.row(long_folder, ids=[3] * 17)
    run_together(recorded, Query((row,) * 3))
    assert played.buckets == [Bucket(4, 32)]
    run_together(recorded, Query((row,) * 9))
    run_together(recorded, Query((bundles.row(long_folder, ids=[3] * 129),)))
    run_together(recorded, Query((row,), frozenset([("pool", 1)])))
    assert len(played.buckets) == 1


def test_answers_stay_as_they_are_when_the_next_batch_is_played(recorded: Model, long_folder: BundleFolder) -> None:
    rows = [bundles.row(long_folder, ids=[word] * 3) for word in (3, 4)]
    (first,) = run_together(recorded, Query((rows[0],)))
    before = {name: array.copy() for name, array in first.outputs.items()}
    run_together(recorded, Query((rows[1],)))
    for name, array in before.items():
        np.testing.assert_array_equal(first.outputs[name], array)


def test_a_picture_has_shapes_without_a_length(
    folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(monkeypatch)
    opened(folders["picture"])
    assert played.buckets and {each.length for each in played.buckets} == {0}


@pytest.mark.parametrize("name", ["noisy", "web", "paper", "echo"])
def test_what_cannot_be_padded_to_a_fixed_shape_is_not_recorded(name: str, folders: dict[str, BundleFolder]) -> None:
    assert opened(folders[name]).record is None


def test_what_packs_tokens_is_not_recorded(folders: dict[str, BundleFolder]) -> None:
    packed = replace(folders["tiny"], bundle=type(folders["tiny"].bundle).FromString(_packed(folders["tiny"])))
    assert open_model(packed, RECORDS, Settings(), NullObserver()).record is None


def _packed(folder: BundleFolder) -> bytes:
    bundle = type(folder.bundle).FromString(folder.bundle.SerializeToString())
    bundle.graphs[0].packed.append("mask")
    return bundle.SerializeToString()


def test_a_recording_that_fails_is_played_no_more_and_the_batch_runs_without_it(
    folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = opened(folders["tiny"])
    query = Query((bundles.row(folders["tiny"], ids=[3, 4]),))
    (expected,) = run_together(model, query)
    run = onnxruntime.InferenceSession.run_with_iobinding
    failures = iter([True])

    def failing(session: Any, binding: Any, options: Any = None) -> None:
        if options is not None and next(failures, False):
            raise RuntimeError("the graph cannot be launched")
        run(session, binding, options)

    monkeypatch.setattr(onnxruntime.InferenceSession, "run_with_iobinding", failing)
    played = Played(monkeypatch)
    for _ in range(2):
        (found,) = run_together(model, query)
        np.testing.assert_allclose(found.outputs["logits"], expected.outputs["logits"], rtol=1e-4, atol=1e-5)
    assert played.buckets == []
    assert "cannot be launched" in caplog.text


def test_a_session_that_refuses_to_record_leaves_the_model_as_it_is(
    folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = onnxruntime.InferenceSession

    def refusing(*arguments: Any, **keywords: Any) -> Any:
        if keywords.get("enable_fallback") == 0:
            raise RuntimeError("This session cannot use the graph capture feature as requested by the user")
        return session(*arguments, **keywords)

    monkeypatch.setattr(onnxruntime, "InferenceSession", refusing)
    assert opened(folders["tiny"]).record is None


def test_recordings_go_with_their_model(folders: dict[str, BundleFolder]) -> None:
    model = opened(folders["tiny"])
    gone = weakref.ref(model)
    gc.collect()
    gc.disable()
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
