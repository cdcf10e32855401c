"""One-pass models: what a row gets is NumPy's answer for it, whatever else is in the batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundle.maps import MapWeights
from bundle.reader import BundleFolder
from bundle.samples import Sample
from service.engine.model import Model
from service.engine.types import Answer, Query
from tests.service.engine import small
from tests.service.engine.conftest import run_together

ids = st.lists(st.integers(1, small.VOCABULARY - 1), min_size=1, max_size=20)
documents = st.lists(st.lists(st.integers(1, small.VOCABULARY - 1), min_size=1, max_size=6), min_size=1, max_size=5)


def assert_answers(answer: Answer, expected: Sample) -> None:
    """Compare a row's whole answer with NumPy's."""
    assert answer.outputs.keys() == expected.outputs.keys()
    assert answer.maps.keys() == expected.maps.keys()
    for name, array in expected.outputs.items():
        np.testing.assert_allclose(answer.outputs[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    for name, weights in expected.maps.items():
        assert_map(answer.maps[name], weights)


def assert_map(actual: MapWeights, expected: MapWeights) -> None:
    """Compare one map, edges included."""
    np.testing.assert_allclose(actual.weights, expected.weights, atol=1e-5)
    for ours, theirs in ((actual.query_index, expected.query_index), (actual.key_index, expected.key_index)):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=30, deadline=None)
@given(batch=st.lists(ids, min_size=1, max_size=6))
def test_a_text_is_answered_the_same_alone_and_anywhere_in_a_padded_batch(
    models: dict[str, Model], folders: dict[str, BundleFolder], batch: list[list[int]]
) -> None:
    rows = tuple(small.row(folders["classifier"], token_ids=each) for each in batch)
    wanted = frozenset({"pool", "encoder.0.self"})
    answers = run_together(models["classifier"], Query(rows, wanted))
    for row, each, answer in zip(rows, batch, answers, strict=True):
        assert_answers(answer, small.classified(np.array(each)))
        (alone,) = run_together(models["classifier"], Query((row,), wanted))
        np.testing.assert_allclose(answer.outputs["logits"], alone.outputs["logits"], rtol=1e-4, atol=1e-5)
        assert answer.batch_rows == len(batch)
        assert alone.batch_rows == 1


@settings(max_examples=30, deadline=None)
@given(batch=st.lists(documents, min_size=1, max_size=5))
def test_a_document_is_answered_the_same_in_any_batch(
    models: dict[str, Model], folders: dict[str, BundleFolder], batch: list[list[list[int]]]
) -> None:
    arrays = []
    for document in batch:
        array = np.zeros((len(document), max(map(len, document))), np.int64)
        for place, sentence in enumerate(document):
            array[place, : len(sentence)] = sentence
        arrays.append(array)
    rows = tuple(small.row(folders["ragged"], word_ids=array) for array in arrays)
    answers = run_together(models["ragged"], Query(rows, frozenset({"word", "sentence"})))
    for array, answer in zip(arrays, answers, strict=True):
        assert_answers(answer, small.read(array))


def test_only_the_maps_that_a_row_wants_come_back(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    model = models["classifier"]
    row = small.row(folders["classifier"], token_ids=[3, 4])
    assert run_together(model, Query((row,)))[0].maps == {}
    assert set(run_together(model, Query((row,), frozenset({"pool"})))[0].maps) == {"pool"}


def test_only_what_is_wanted_is_fetched_from_the_runtime(
    models: dict[str, Model], folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.engine import sessions

    fetched: list[tuple[str, ...]] = []
    run = sessions.Session.run

    def spy(self: sessions.Session, outputs: tuple[str, ...], feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        fetched.append(tuple(outputs))
        return run(self, outputs, feeds)

    monkeypatch.setattr(sessions.Session, "run", spy)
    row = small.row(folders["classifier"], token_ids=[3, 4])
    run_together(models["classifier"], Query((row,)))
    run_together(models["classifier"], Query((row,), frozenset({"pool"})))
    assert fetched == [("logits", "tags"), ("logits", "tags", "pool")]


def test_noise_is_neutral_without_a_seed(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    (answer,) = run_together(models["noisy"], Query((small.row(folders["noisy"], token_ids=[3, 4]),)))
    assert answer.outputs["logits"].tolist() == [0, 0, 0]
    assert answer.outputs["first"].tolist() == [0.5, 0.5]
    assert answer.outputs["second"].tolist() == [0, 0]


def test_noise_of_a_row_depends_on_seed_and_place_alone(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    short, long = (small.row(folders["noisy"], token_ids=[3] * length) for length in (2, 9))
    query = Query((short, short, long), seed=11)
    together = run_together(models["noisy"], query)
    again = run_together(models["noisy"], Query((short, short), seed=11))
    for name in ("logits", "first", "second"):
        np.testing.assert_array_equal(together[1].outputs[name], again[1].outputs[name])
        assert not np.array_equal(together[0].outputs[name], together[1].outputs[name])
    other = run_together(models["noisy"], Query((short,), seed=12))
    assert not np.array_equal(together[0].outputs["logits"], other[0].outputs["logits"])


def test_noise_has_the_distribution_that_the_bundle_states(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    row = small.row(folders["noisy"], token_ids=[3] * small.LONGEST)
    answers = run_together(models["noisy"], Query((row,) * 200, seed=1))
    uniform = np.concatenate([each.outputs["first"] for each in answers])
    normal = np.concatenate([each.outputs["second"] for each in answers])
    gumbel = np.concatenate([each.outputs["logits"] for each in answers])
    assert uniform.min() >= 0 and uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=0.02)
    assert (normal.mean(), normal.std()) == (pytest.approx(0, abs=0.05), pytest.approx(1, abs=0.05))
    assert gumbel.mean() == pytest.approx(np.euler_gamma, abs=0.2)
