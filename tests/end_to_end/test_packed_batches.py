"""A graph that packs tokens: rows of different lengths share batches of the engine, and answer as they do alone."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight_bundle.errors import BundleError
from limelight_bundle.preprocess import Preprocessor
from limelight_bundle.reader import BundleFolder
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.writer import write_bundle
from limelight_service.engine.engine import Engine
from limelight_service.engine.model import Model
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import Provider, choose_provider
from limelight_service.engine.shapes import places
from limelight_service.engine.types import Answer, Query
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.kit import tiny
from tests.kit.exports import export_model
from tests.service.engine.conftest import run_together, weights_of

WANTED = weights_of("encoder.0.self", "encoder.1.self", "pool")
lengths = st.lists(st.integers(1, 40) | st.integers(325, 330), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> BundleFolder:
    torch.manual_seed(0)
    trained = tiny.trained(tiny.PackedReader(), tiny.long_reader_card("packed_reader"))
    return export_model(trained, tmp_path_factory.mktemp("packed"))


@pytest.fixture(scope="module")
def provider() -> Provider:
    return choose_provider("cpu", workers=1)


@pytest.fixture(scope="module")
def model(folder: BundleFolder, provider: Provider) -> Model:
    return open_model(folder, provider, Settings(), NullObserver())


@pytest.fixture(scope="module")
def preprocessor(folder: BundleFolder) -> Preprocessor:
    return Preprocessor(folder)


def query(preprocessor: Preprocessor, *counts: int) -> Query:
    """Ask about texts of so many words, without maps."""
    texts = [" ".join(np.random.default_rng(count).choice(tiny.WORDS[:-1], count)) for count in counts]
    return Query(tuple(preprocessor.row({"text": tiny.Text(each)}, field=()) for each in texts))


def assert_same(found: Answer, alone: Answer) -> None:
    """Compare an answer of a batch with that of the row alone, maps included."""
    np.testing.assert_allclose(found.outputs["logits"], alone.outputs["logits"], rtol=1e-4, atol=1e-5)
    for key, part in found.maps.items():
        np.testing.assert_allclose(part.weights, alone.maps[key].weights, atol=1e-5)


@settings(max_examples=15, deadline=None)
@given(counts=lengths, maps=st.booleans())
def test_rows_of_any_lengths_answer_alike_alone_and_packed(
    model: Model, preprocessor: Preprocessor, counts: list[int], maps: bool
) -> None:
    wanted = WANTED if maps else frozenset()
    rows = query(preprocessor, *counts).rows
    for row, found in zip(rows, run_together(model, Query(rows, wanted)), strict=True):
        assert found.maps.keys() == wanted
        assert_same(found, run_together(model, Query((row,), WANTED))[0])


def test_the_engine_batches_rows_of_different_lengths(
    model: Model, preprocessor: Preprocessor, provider: Provider
) -> None:
    asked = query(preprocessor, 20, 31, 12, 25)

    async def answered() -> list[Answer]:
        engine = Engine(Settings(), provider)
        await engine.start()
        try:
            return await engine.answer(model, asked, lambda index, answer: answer)
        finally:
            await engine.stop(5.0)

    found = asyncio.run(answered())
    assert [each.batch_rows for each in found] == [4] * 4
    for row, answer in zip(asked.rows, found, strict=True):
        assert_same(answer, run_together(model, Query((row,)))[0])


def test_a_batch_costs_its_real_tokens(model: Model, preprocessor: Preprocessor) -> None:
    assert [places(model.shape(row.sizes)) for row in query(preprocessor, 20, 31).rows] == [20, 31]
    assert model.policy.max_padding == 0.5


def test_a_bundle_that_says_it_packs_by_what_is_no_mask_is_refused(folder: BundleFolder, tmp_path: Path) -> None:
    bundle = bundle_pb2.Bundle()
    bundle.CopyFrom(folder.bundle)
    bundle.graphs[0].packed[:] = ["ids"]
    with pytest.raises(BundleError, match="packs tokens by 'ids', which is not a mask among its inputs"):
        write_bundle(tmp_path, bundle, {each.path: folder.file(each.path) for each in folder.bundle.files})
