"""Outputs that stay on a device until they are cut there are those that NumPy has; the device is the CPU's here."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight_bundle.maps import MapPart, map_quantities
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.wire import instance_from_wire
from limelight_service.checking.selftest import check_samples
from limelight_service.engine.model import Model
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.device_graphs import put
from limelight_service.engine.runtime.placement import Cut, cut_value
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.runtime.sessions import Session, open_sessions
from limelight_service.engine.types import Answer, MapKey, Query
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.kit import bundles
from tests.service.engine.conftest import run_together

SMALL = [make.__name__ for make in bundles.ALL]


@pytest.fixture(scope="module")
def device(provider: Provider) -> Provider:
    """The CPU, used as a device with memory of its own."""
    return replace(provider, device=("cpu", 0), staged=True)


@pytest.fixture(scope="module")
def placed(folders: dict[str, BundleFolder], device: Provider) -> dict[str, Model]:
    """The small models on it."""
    return {name: open_model(folder, device, Settings(), NullObserver()) for name, folder in folders.items()}


def requested(model: Model, folder: BundleFolder, *, half: bool = False) -> Query:
    """Every example with every map, and of every second row but the last head and query."""
    preprocessor = Preprocessor(folder)
    rows = tuple(preprocessor.row(instance_from_wire(each, "example"), field=()) for each in model.description.examples)
    maps: frozenset[MapKey] = frozenset((each.name, kind) for each, kind in map_quantities(model.description.maps))
    parts = []
    for number, row in enumerate(rows):
        part: dict[MapKey, MapPart] = {}
        for each, kind in map_quantities(model.description.maps):
            if number % 2 == 0 and each.query_labels in row.labels:
                last = row.labels[each.query_labels].size - 1
                part[each.name, kind] = MapPart(np.array([each.heads - 1]), np.array([last]), half=half)
            elif half:
                part[each.name, kind] = MapPart(half=True)
        parts.append(part)
    return model.seeded(Query(rows, maps, parts=tuple(parts), seeds=(5,) * len(rows)))


def assert_part_of(found: Answer, whole: Answer, *, half: bool) -> None:
    """Compare with all there is, to the bit."""
    for name, array in whole.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], array, err_msg=name)
    assert found.maps.keys() == whole.maps.keys()
    for key, weights in whole.maps.items():
        part, expected = found.maps[key], weights.weights
        assert part.has_edges_of(weights)
        if part.heads is not None and part.queries is not None:
            expected = expected[part.heads][:, part.queries]
        if half and part.weights.dtype == np.float16:
            expected = expected.astype(np.float16)
        np.testing.assert_array_equal(part.weights, expected, err_msg=str(key))


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", SMALL)
def test_every_kind_of_model_answers_on_a_device_as_it_does_in_arrays(
    name: str,
    half: bool,
    models: dict[str, Model],
    placed: dict[str, Model],
    folders: dict[str, BundleFolder],
) -> None:
    query = requested(placed[name], folders[name], half=half)
    plain = replace(query, parts=())
    whole = run_together(models[name], plain)
    for found, expected in zip(run_together(placed[name], query), whole, strict=True):
        assert_part_of(found, expected, half=half)
    for found, expected in zip(run_together(placed[name], plain), whole, strict=True):
        assert_part_of(found, expected, half=False)


@pytest.mark.parametrize("name", SMALL)
def test_the_self_test_passes_on_a_device(
    name: str, folders: dict[str, BundleFolder], placed: dict[str, Model]
) -> None:
    check_samples(placed[name], folders[name])


def test_only_what_is_asked_for_leaves_the_device(
    placed: dict[str, Model], folders: dict[str, BundleFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    brought: dict[str, tuple[int, ...]] = {}
    run = Session.run

    def spy(self: Session, outputs: tuple[str, ...], *arguments: object, **keywords: object) -> list[np.ndarray]:
        found = run(self, outputs, *arguments, **keywords)  # type: ignore[arg-type]
        brought.update(zip(outputs, (each.shape for each in found), strict=True))
        return found

    monkeypatch.setattr(Session, "run", spy)
    rows = tuple(bundles.row(folders["tiny"], ids=[3] * length) for length in (9, 5, 2))
    key = ("encoder.0.self", 1)
    part = {key: MapPart(np.array([1]), np.array([0, 4]))}
    query = Query(rows, frozenset([key]), parts=(part, part, {key: MapPart(np.array([1]), np.array([1]))}))
    answers = run_together(placed["tiny"], query)
    (output,) = [name for name in brought if name not in ("logits", "features", "tags")]
    assert brought[output] == (3, 1, 3, 9)
    assert [each.maps[key].weights.shape for each in answers] == [(1, 2, 9), (1, 2, 5), (1, 1, 2)]


axes = st.tuples(*[st.integers(1, 4)] * 4)


@settings(max_examples=30, deadline=None)
@given(shape=axes, data=st.data(), half=st.booleans())
def test_a_cut_on_a_device_is_the_same_cut_of_an_array(
    shape: tuple[int, ...], data: st.DataObject, half: bool, device: Provider
) -> None:
    indices = [data.draw(st.lists(st.integers(0, size - 1), unique=True).map(sorted)) for size in shape]
    cut = Cut(*(np.array(each, np.int64) for each in indices), half=half)
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    found = cut_value(put(values, device), cut, device)
    expected = values[np.ix_(*indices)]
    np.testing.assert_array_equal(found, expected.astype(np.float16) if half else expected)


def test_a_session_on_a_device_takes_views_and_gates(folders: dict[str, BundleFolder], device: Provider) -> None:
    session = open_sessions(folders["tiny"], device)["main"]
    ids = np.array([[3, 0, 4, 0, 5, 0]])[:, ::2]
    feeds = {"ids": ids, "mask": ids > 0}
    found = session.run(session.outputs, feeds)
    expected = session.run(session.outputs, {name: each.copy() for name, each in feeds.items()})
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
