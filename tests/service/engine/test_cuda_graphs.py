"""Batches padded to captured shapes, in fixed places of memory: on the CPU, which runs what a GPU would replay."""

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
from service.checking.selftest import check_samples
from service.engine.model import Model
from service.engine.opening import open_model
from service.engine.runtime.cuda_graphs import (
    LENGTHS,
    ROWS,
    CudaGraphCache,
    ShapeBucket,
    bucket_of,
    buckets,
    lengths_up_to,
)
from service.engine.runtime.providers import Provider
from service.engine.types import Query
from service.observability.observer import NullObserver
from service.settings import Settings
from tests.service import bundles
from tests.service.engine.conftest import run_together

CAPTURES = Provider("CPUExecutionProvider", 2, 2, staged=True, device=("cpu", 0), cuda_graphs=True)


def opened(folder: BundleFolder) -> Model:
    """A model whose CUDA graphs are captured."""
    model = open_model(folder, CAPTURES, Settings(), NullObserver())
    check_samples(model, folder)
    return model


@pytest.fixture(scope="module")
def long_folder(tmp_path_factory: pytest.TempPathFactory) -> BundleFolder:
    """The reader of texts, for longer ones than are captured."""
    return bundles.tiny(tmp_path_factory.mktemp("long"), max_tokens=150)


@pytest.fixture(scope="module")
def captured(long_folder: BundleFolder) -> Model:
    """The same, loaded."""
    return opened(long_folder)


@pytest.fixture(scope="module")
def plain(long_folder: BundleFolder, provider: Provider) -> Model:
    """The same, without CUDA graphs."""
    return open_model(long_folder, provider, Settings(), NullObserver())


class Rereplayed:
    """The shapes that were rereplayed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.buckets: list[ShapeBucket] = []
        replay = CudaGraphCache.replay

        def spy(cache: CudaGraphCache, bucket: ShapeBucket, feeds: dict[str, Any]) -> list[np.ndarray] | None:
            found = replay(cache, bucket, feeds)
            if found is not None:
                self.buckets.append(bucket)
            return found

        monkeypatch.setattr(CudaGraphCache, "replay", spy)


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
def test_a_captured_batch_is_answered_as_any_other(
    captured: Model, plain: Model, long_folder: BundleFolder, batch: list[tuple[int, int]]
) -> None:
    ids = [[(seed + place) % bundles.VOCABULARY for place in range(length)] for seed, length in batch]
    query = Query(tuple(bundles.row(long_folder, ids=each) for each in ids))
    for found, expected in zip(run_together(captured, query), run_together(plain, query), strict=True):
        for name, array in expected.outputs.items():
            np.testing.assert_allclose(found.outputs[name], array, rtol=1e-4, atol=1e-5)


def test_only_predictions_that_fit_are_replayed(
    captured: Model, long_folder: BundleFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = Rereplayed(monkeypatch)
    row = bundles.row(long_folder, ids=[3] * 17)
    run_together(captured, Query((row,) * 3))
    assert replayed.buckets == [ShapeBucket(4, 32)]
    run_together(captured, Query((row,) * 9))
    run_together(captured, Query((bundles.row(long_folder, ids=[3] * 129),)))
    run_together(captured, Query((row,), frozenset([("pool", 1)])))
    assert len(replayed.buckets) == 1


def test_answers_stay_as_they_are_when_the_next_batch_is_replayed(captured: Model, long_folder: BundleFolder) -> None:
    rows = [bundles.row(long_folder, ids=[word] * 3) for word in (3, 4)]
    (first,) = run_together(captured, Query((rows[0],)))
    before = {name: array.copy() for name, array in first.outputs.items()}
    run_together(captured, Query((rows[1],)))
    for name, array in before.items():
        np.testing.assert_array_equal(first.outputs[name], array)


def test_a_picture_has_shapes_without_a_length(
    folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    replayed = Rereplayed(monkeypatch)
    opened(folders["picture"])
    assert replayed.buckets and {each.length for each in replayed.buckets} == {0}


@pytest.mark.parametrize("name", ["noisy", "web", "paper", "echo"])
def test_what_cannot_be_padded_to_a_fixed_shape_is_not_captured(name: str, folders: dict[str, BundleFolder]) -> None:
    assert opened(folders[name]).capture is None


def test_what_packs_tokens_is_not_captured(folders: dict[str, BundleFolder]) -> None:
    packed = replace(folders["tiny"], bundle=type(folders["tiny"].bundle).FromString(_packed(folders["tiny"])))
    assert open_model(packed, CAPTURES, Settings(), NullObserver()).capture is None


def _packed(folder: BundleFolder) -> bytes:
    bundle = type(folder.bundle).FromString(folder.bundle.SerializeToString())
    bundle.graphs[0].packed.append("mask")
    return bundle.SerializeToString()


def test_a_cuda_graph_that_fails_is_replayed_no_more_and_the_batch_runs_without_it(
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
    replayed = Rereplayed(monkeypatch)
    for _ in range(2):
        (found,) = run_together(model, query)
        np.testing.assert_allclose(found.outputs["logits"], expected.outputs["logits"], rtol=1e-4, atol=1e-5)
    assert replayed.buckets == []
    assert "cannot be launched" in caplog.text


def test_a_session_that_refuses_to_capture_leaves_the_model_as_it_is(
    folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = onnxruntime.InferenceSession

    def refusing(*arguments: Any, **keywords: Any) -> Any:
        if keywords.get("enable_fallback") == 0:
            raise RuntimeError("This session cannot use the graph capture feature as requested by the user")
        return session(*arguments, **keywords)

    monkeypatch.setattr(onnxruntime, "InferenceSession", refusing)
    assert opened(folders["tiny"]).capture is None


def test_cuda_graphs_go_with_their_model(folders: dict[str, BundleFolder]) -> None:
    model = opened(folders["tiny"])
    gone = weakref.ref(model)
    gc.collect()
    gc.disable()
    try:
        del model
        assert gone() is None
    finally:
        gc.enable()
