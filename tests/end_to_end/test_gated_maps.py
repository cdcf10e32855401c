"""Maps that a graph computes only where they are asked for: whoever asks, and however, gets the same numbers."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight.v1 import attention_pb2
from limelight_bundle.errors import BundleError
from limelight_bundle.maps import VALUES, MapPart
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder, read_bundle
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.writer import write_bundle
from limelight_service.checking.selftest import check_samples
from limelight_service.engine.model import Model
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import choose_provider
from limelight_service.engine.types import Answer, Query
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.kit import tiny
from tests.kit.exports import export_model
from tests.kit.serving import Running, attend, predict, serving, text
from tests.service.engine.conftest import run_together, weights_of

MAPS = ("encoder.0.self", "encoder.1.self")
HEADS = 4
WANTED = weights_of(*MAPS, "pool")
lengths = st.lists(st.integers(1, 40) | st.integers(325, 330), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BundleFolder:
    torch.manual_seed(0)
    repository = tmp_path_factory.mktemp("gated")
    return export_model(tiny.trained(tiny.LongReader(), tiny.long_reader_card()), repository)


@pytest.fixture(scope="module")
def model(folder: BundleFolder) -> Model:
    return open_model(folder, choose_provider("cpu", workers=1), Settings(), NullObserver())


@pytest.fixture(scope="module")
def preprocessor(folder: BundleFolder) -> Preprocessor:
    return Preprocessor(folder)


@pytest.fixture(scope="module")
def server(folder: BundleFolder) -> Iterator[Running]:
    with serving(folder.path.parent.parent) as running:
        yield running


def words(count: int, seed: int = 0) -> str:
    """Draw a text of so many words."""
    return " ".join(np.random.default_rng(seed).choice(tiny.WORDS[:-1], count))


def assert_same(found: Answer, whole: Answer) -> None:
    """Compare what is there of an answer with the whole."""
    np.testing.assert_allclose(found.outputs["logits"], whole.outputs["logits"], rtol=1e-4, atol=1e-5)
    for key, part in found.maps.items():
        expected = whole.maps[key].weights
        if part.heads is not None:
            expected = expected[part.heads][:, part.queries]
        np.testing.assert_allclose(part.weights, expected, atol=1e-5)


@settings(max_examples=12, deadline=None)
@given(batch=lengths, data=st.data())
def test_a_row_is_answered_the_same_alone_padded_gated_and_by_parts(
    model: Model, preprocessor: Preprocessor, batch: list[int], data: st.DataObject
) -> None:
    rows = tuple(
        preprocessor.row({"text": tiny.Text(words(count, seed))}, field=()) for seed, count in enumerate(batch)
    )
    heads = st.none() | st.sets(st.integers(0, HEADS - 1), min_size=1).map(lambda each: np.array(sorted(each)))
    parts = []
    for count in batch:
        queries = st.none() | st.sets(st.integers(0, count - 1), max_size=3).map(
            lambda each: np.array(sorted(each), dtype=np.int64)
        )
        parts.append({(name, 1): MapPart(data.draw(heads), data.draw(queries)) for name in MAPS})
    whole = [run_together(model, Query((row,), WANTED))[0] for row in rows]
    ways = (Query(rows), Query(rows, WANTED), Query(rows, WANTED, parts=tuple(parts)))
    for query in ways:
        for found, expected in zip(run_together(model, query), whole, strict=True):
            assert found.maps.keys() == query.maps
            assert_same(found, expected)
    for row, part, expected in zip(rows, parts, whole, strict=True):
        (alone,) = run_together(model, Query((row,), WANTED, parts=(part,)))
        assert_same(alone, expected)
        for key, each in part.items():  # what is there is at least what was asked for
            held = alone.maps[key]
            assert held.heads is None or each.heads is None or set(each.heads) <= set(held.heads)
            assert held.queries is None or each.queries is None or set(each.queries) <= set(held.queries)


def test_a_row_of_a_long_text_is_computed_alone(model: Model, preprocessor: Preprocessor) -> None:
    row = preprocessor.row({"text": tiny.Text(words(330))}, field=())
    part = MapPart(np.array([1, 3]), np.array([0, 329]))
    (answer,) = run_together(model, Query((row,), weights_of(MAPS[0]), parts=({(MAPS[0], 1): part},)))
    assert answer.maps[MAPS[0], 1].weights.shape == (2, 2, 330)


def test_rows_with_the_same_maps_share_a_batch_and_long_ones_with_others_do_not(
    model: Model, preprocessor: Preprocessor
) -> None:
    def group(count: int, *maps: str) -> object:
        row = preprocessor.row({"text": tiny.Text(words(count))}, field=())
        return model.runner.group(row, weights_of(*maps), {})

    assert group(5) == group(7, MAPS[0])
    assert group(330) == group(330, "pool") != group(330, MAPS[0])


@pytest.mark.parametrize("count", [6, 328])
def test_a_row_over_a_socket_is_the_row_of_the_whole_map(server: Running, count: int) -> None:
    instances = [text(words(count)), text(words(count - 1, 1)), text("cat")]
    whole = server.stub.Attend(attend("long_reader", *instances)).results
    alone = server.stub.Predict(predict("long_reader", *instances)).predictions
    selection = attention_pb2.MapSelection(names=list(MAPS), heads=[3, 1], queries=[-1])
    some = server.stub.Attend(attend("long_reader", *instances, selections=[selection])).results
    for all_of_it, prediction, part in zip(whole, alone, some, strict=True):
        logits = [np.frombuffer(each.outputs["logits"].data, np.float32) for each in (all_of_it.prediction, prediction)]
        np.testing.assert_allclose(logits[0], logits[1], rtol=1e-4, atol=1e-5)
        maps = {each.name: each for each in all_of_it.maps}
        assert [each.name for each in part.maps] == list(MAPS)
        for each in part.maps:
            assert list(each.heads) == [1, 3]
            expected = array_of(maps[each.name])[[1, 3], -1:]
            np.testing.assert_allclose(array_of(each), expected, atol=1e-5)


def array_of(message: attention_pb2.AttentionMap) -> np.ndarray:
    """Read a map's weights."""
    return np.frombuffer(message.weights.data, np.float32).reshape(message.weights.shape)


def changed(folder: BundleFolder, repository: Path, binding: dict[str, str], graph: bytes | None = None) -> Path:
    """Write the bundle again with another binding of its first map, or another graph."""
    bundle = bundle_pb2.Bundle()
    bundle.CopyFrom(folder.bundle)
    for name, value in binding.items():
        place, _, own = name.rpartition(".")
        setattr(getattr(bundle.maps[0], place) if place else bundle.maps[0], own, value)
    files: dict[str, bytes | Path] = {each.path: folder.file(each.path) for each in folder.bundle.files}
    if graph is not None:
        files["model.onnx"] = graph
    return write_bundle(repository, bundle, files).path


@pytest.mark.parametrize(
    ("binding", "reason"),
    [
        ({"gate": "ids"}, "no optional input 'ids'"),
        ({"probe.queries_input": "elsewhere"}, "no optional input 'elsewhere'"),
        ({"probe.output": "elsewhere"}, "rows of the map encoder.0.self are bound to 'elsewhere'"),
        ({"projections.gate": "ids"}, "no optional input 'ids'"),
        ({"projections.key_output": "elsewhere"}, "projections of the map encoder.0.self are bound to 'elsewhere'"),
    ],
)
def test_a_switch_that_the_graph_lacks_is_refused(
    folder: BundleFolder, tmp_path: Path, binding: dict[str, str], reason: str
) -> None:
    with pytest.raises(BundleError, match=reason):
        changed(folder, tmp_path, binding)


@pytest.mark.parametrize(("part", "how"), [("probe", "by parts"), ("projections", "from projections")])
def test_a_bundle_whose_parts_are_wrong_is_refused_by_its_samples(
    folder: BundleFolder, tmp_path: Path, part: str, how: str
) -> None:
    graph = onnx.load(folder.file("model.onnx"))
    field = "output" if part == "probe" else "query_output"
    names = {each.map: getattr(getattr(each, part), field) for each in folder.bundle.maps if each.quantity != VALUES}
    for node in graph.graph.node:
        for place, name in enumerate(node.output):
            if name in names.values():
                node.output[place] = names[MAPS[0] if name == names[MAPS[1]] else MAPS[1]]
    path = changed(folder, tmp_path, {}, graph.SerializeToString())
    wrong = read_bundle(path)
    opened = open_model(wrong, choose_provider("cpu", workers=1), Settings(), NullObserver())
    with pytest.raises(BundleError, match=f"{how}, is not answered as at its export: encoder"):
        check_samples(opened, wrong)
