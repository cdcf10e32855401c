"""One-pass models: what a row gets is NumPy's answer for it, whatever else is in the batch."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1.attention_pb2 import QUANTITY_NORMS, QUANTITY_SCORES, QUANTITY_WEIGHTS
from limelight_bundle.maps import WEIGHTS, MapWeights
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample
from limelight_bundle.values import Graph
from limelight_service.engine.jobs import detached_call
from limelight_service.engine.model import Model
from limelight_service.engine.types import Answer, Query
from tests.kit import bundles
from tests.service.engine.conftest import run_together, weights_of

ids = st.lists(st.integers(1, bundles.VOCABULARY - 1), min_size=1, max_size=20)
documents = st.lists(st.lists(st.integers(1, bundles.VOCABULARY - 1), min_size=1, max_size=6), min_size=1, max_size=5)


def assert_answers(answer: Answer, expected: Sample) -> None:
    """Compare a row's whole answer with NumPy's."""
    assert answer.outputs.keys() == expected.outputs.keys()
    maps = {name: weights for name, weights in expected.maps.items() if ":" not in name}  # other quantities apart
    assert answer.maps.keys() == weights_of(*maps)
    for name, array in expected.outputs.items():
        np.testing.assert_allclose(answer.outputs[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
    for name, weights in maps.items():
        assert_map(answer.maps[name, WEIGHTS], weights)


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
    rows = tuple(bundles.row(folders["tiny"], ids=each) for each in batch)
    wanted = weights_of("encoder.0.self", "encoder.1.self", "pool")
    answers = run_together(models["tiny"], Query(rows, wanted))
    for row, each, answer in zip(rows, batch, answers, strict=True):
        assert_answers(answer, bundles.tiny_answer(np.array(each)))
        (alone,) = run_together(models["tiny"], Query((row,), wanted))
        np.testing.assert_allclose(answer.outputs["logits"], alone.outputs["logits"], rtol=1e-4, atol=1e-5)
        assert answer.batch_rows == len(batch)
        assert alone.batch_rows == 1


@settings(max_examples=30, deadline=None)
@given(batch=st.lists(documents, min_size=1, max_size=5))
def test_a_document_is_answered_the_same_in_any_batch(
    models: dict[str, Model], folders: dict[str, BundleFolder], batch: list[list[list[int]]]
) -> None:
    arrays = list(map(bundles.padded, batch))
    rows = tuple(bundles.row(folders["paper"], ids=array) for array in arrays)
    answers = run_together(models["paper"], Query(rows, weights_of("word", "sentence")))
    for array, answer in zip(arrays, answers, strict=True):
        assert_answers(answer, bundles.paper_answer(array))


def test_only_the_maps_that_a_row_wants_come_back(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    model = models["tiny"]
    row = bundles.row(folders["tiny"], ids=[3, 4])
    assert run_together(model, Query((row,)))[0].maps == {}
    assert set(run_together(model, Query((row,), weights_of("pool")))[0].maps) == weights_of("pool")


def test_only_what_is_wanted_is_fetched_from_the_runtime(
    models: dict[str, Model], folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    from limelight_service.engine.runtime import sessions

    fetched: list[tuple[str, ...]] = []
    run = sessions.Session.run

    def spy(
        self: sessions.Session, outputs: tuple[str, ...], feeds: dict[str, np.ndarray], **how: Any
    ) -> list[np.ndarray]:
        fetched.append(tuple(outputs))
        return run(self, outputs, feeds, **how)

    monkeypatch.setattr(sessions.Session, "run", spy)
    row = bundles.row(folders["tiny"], ids=[3, 4])
    run_together(models["tiny"], Query((row,)))
    run_together(models["tiny"], Query((row,), weights_of("pool")))
    assert fetched == [("logits", "features", "tags"), ("logits", "features", "tags", "pooled")]


def test_every_quantity_of_a_map_can_be_asked_for(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    texts = [[4, 5, 6], [7]]
    wanted = frozenset(("encoder.1.self", each) for each in (QUANTITY_WEIGHTS, QUANTITY_SCORES, QUANTITY_NORMS))
    rows = tuple(bundles.row(folders["tiny"], ids=each) for each in texts)
    for ids, answer in zip(texts, run_together(models["tiny"], Query(rows, wanted)), strict=True):
        layer = bundles.tiny_layers(np.array(ids))[1][1]
        for quantity, name in ((QUANTITY_WEIGHTS, "attention"), (QUANTITY_SCORES, "scores"), (QUANTITY_NORMS, "norms")):
            np.testing.assert_allclose(
                answer.maps["encoder.1.self", quantity].weights, layer[name], rtol=1e-4, atol=1e-5
            )


def test_noise_is_neutral_without_a_seed(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    (answer,) = run_together(models["noisy"], Query((bundles.row(folders["noisy"], ids=[3, 4]),)))
    assert answer.outputs["logits"].tolist() == [0, 0, 0]
    assert answer.outputs["first"].tolist() == [0.5, 0.5]
    assert answer.outputs["second"].tolist() == [0, 0]


def test_noise_of_a_row_depends_on_its_seed_alone(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    short, long = (bundles.row(folders["noisy"], ids=[4] * length) for length in (2, 9))
    together = run_together(models["noisy"], Query((long, short, short, short), seeds=(3, 11, 12, None)))
    (alone,) = run_together(models["noisy"], Query((short,), seeds=(11,)))
    backwards = run_together(models["noisy"], Query((short, short), seeds=(12, 11)))
    for name in ("logits", "first", "second"):
        np.testing.assert_array_equal(together[1].outputs[name], alone.outputs[name])
        np.testing.assert_array_equal(together[1].outputs[name], backwards[1].outputs[name])
        assert not np.array_equal(together[1].outputs[name], together[2].outputs[name])
    assert together[3].outputs["logits"].tolist() == [0, 0, 0]


def test_the_seed_that_was_drawn_from_is_told(models: dict[str, Model], folders: dict[str, BundleFolder]) -> None:
    rows = tuple(bundles.row(folders[name], ids=[4, 5]) for name in ("noisy", "tiny"))
    noisy = run_together(models["noisy"], Query((rows[0],) * 2, seeds=(0, None)))
    assert [each.seed for each in noisy] == [0, None]
    assert run_together(models["tiny"], Query((rows[1],), seeds=(5,)))[0].seed is None  # it draws nothing


def test_noise_has_the_distribution_that_the_bundle_states(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    row = bundles.row(folders["noisy"], ids=[3] * bundles.MOST_TOKENS)
    answers = run_together(models["noisy"], Query((row,) * 200, seeds=tuple(range(200))))
    uniform = np.concatenate([each.outputs["first"] for each in answers])
    normal = np.concatenate([each.outputs["second"] for each in answers])
    gumbel = np.concatenate([each.outputs["logits"] for each in answers])
    assert uniform.min() >= 0 and uniform.max() < 1
    assert uniform.mean() == pytest.approx(0.5, abs=0.02)
    assert (normal.mean(), normal.std()) == (pytest.approx(0, abs=0.05), pytest.approx(1, abs=0.05))
    assert gumbel.mean() == pytest.approx(np.euler_gamma, abs=0.2)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """One node or several, without edges, with some, with loops."""
    nodes = draw(st.integers(1, 6))
    node = st.integers(0, nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=12, unique=True))
    return bundles.drawn_graph(nodes, edges, seed=draw(st.integers(0, 1000)))


@settings(max_examples=40, deadline=None)
@given(batch=st.lists(graphs(), min_size=1, max_size=5), asking=st.integers(0, 4))
def test_a_graph_is_answered_the_same_alone_and_joined_with_any_others(
    models: dict[str, Model], folders: dict[str, BundleFolder], batch: list[Graph], asking: int
) -> None:
    preprocessor = Preprocessor(folders["web"])
    rows = tuple(preprocessor.row({"graph": each}, field=("instances", 0)) for each in batch)
    answers = run_together(models["web"], Query(rows, weights_of("layer.0")))
    for each, answer in zip(batch, answers, strict=True):
        assert_answers(answer, bundles.web_answer(each))
        assert answer.labels["nodes"].texts == each.names
        assert answer.batch_rows == len(batch)
    place = asking % len(batch)
    (alone,) = run_together(models["web"], Query((rows[place],), weights_of("layer.0")))
    assert_answers(alone, bundles.web_answer(batch[place]))


def test_in_a_batch_of_graphs_only_those_that_ask_get_their_map(
    models: dict[str, Model], folders: dict[str, BundleFolder]
) -> None:
    preprocessor, model = Preprocessor(folders["web"]), models["web"]
    drawn = [bundles.drawn_graph(3, [(0, 1), (2, 0)], seed=seed) for seed in range(3)]
    rows = [preprocessor.row({"graph": each}, field=("instances", 0)) for each in drawn]
    queries = [Query((row,), weights_of("layer.0") if place == 1 else frozenset()) for place, row in enumerate(rows)]
    calls = [detached_call(model.seeded(query)) for query in queries]
    jobs = [job for call in calls for job in model.jobs(call, itertools.count(), 0)]
    ((*happened,),) = model.runner.run(jobs)
    answers = [answer for _, answer in happened]
    assert [len(answer.maps) for answer in answers if isinstance(answer, Answer)] == [0, 1, 0]
    assert isinstance(answers[1], Answer)
    assert_answers(answers[1], bundles.web_answer(drawn[1]))
