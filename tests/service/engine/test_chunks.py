"""Chunks of maps: their weights are the map's own, and they are computed at the pace of whoever takes them."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, suppress
from itertools import pairwise
from threading import Lock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limelight_bundle.maps import MapWeights, Projected
from limelight_service.engine.model import Model
from limelight_service.engine.runtime.chunks import ChunkRow, cut_points
from limelight_service.engine.runtime.projected_weights import some_weights
from limelight_service.engine.types import Answer
from limelight_service.errors import DeadlineError, InferenceError, ModelUnavailableError
from tests.service.engine.test_engine import Count, on_loop, running


@given(st.data())
def test_some_weights_are_those_of_the_whole_map(data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    heads, queries, keys = (data.draw(st.integers(1, 6)) for _ in range(3))
    query, key = (random.standard_normal((heads, size, 3), np.float32) for size in (queries, keys))
    shape = [data.draw(st.sampled_from([1, size])) for size in (heads, queries)]
    possible = random.random((*shape, keys)) < 0.7
    bias = np.where(possible, np.float32(0), np.float32(-1e38)) if data.draw(st.booleans()) else None
    scores = np.einsum("hqd,hkd->hqk", query.astype(np.float64), key)
    exponents = np.exp(scores) * (1 if bias is None else possible)
    sums = exponents.sum(axis=-1, keepdims=True)
    expected = np.divide(exponents, sums, out=np.zeros_like(exponents), where=sums > 0)
    wanted = [np.array(sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=1)))) for size in (heads, queries)]
    found = some_weights(Projected(query, key, bias), *wanted)
    np.testing.assert_allclose(found, expected[wanted[0]][:, wanted[1]], atol=1e-6)


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 40))
def test_an_axis_is_cut_into_the_longest_runs_that_fit(sizes: list[int], most: int) -> None:
    cuts = cut_points(np.array(sizes, int), most)
    assert [place for first, last in cuts for place in range(first, last)] == list(range(len(sizes)))
    assert all(sum(sizes[first:last]) <= most or last == first + 1 for first, last in cuts)
    for (first, last), (_, further) in pairwise(cuts):
        assert further > last and sum(sizes[first : last + 1]) > most


class Counted:
    """Chunks of a map, and how many of them have been computed. fails: the one that does."""

    def __init__(self, count: int, fails: int = -1) -> None:
        whole = MapWeights(np.zeros((1, count, 4), np.float32))
        self._rows = [
            ChunkRow({}, {"weights": 4}, key=("map", 1), source=whole, heads=np.zeros(1, int), queries=np.array([each]))
            for each in range(count)
        ]
        self._fails, self._lock = fails, Lock()
        self.computed = 0
        self.failed = False

    def chunks(self) -> Iterator[tuple[ChunkRow, Callable[[Answer], int]]]:
        for place, row in enumerate(self._rows):
            yield row, lambda answer, place=place: self._finish(place)  # type: ignore[misc]

    def _finish(self, place: int) -> int:
        if place == self._fails:
            self.failed = True
            raise ValueError("no reason")
        with self._lock:
            self.computed += 1
        return place


@on_loop
async def test_chunks_come_in_order_and_only_a_few_are_computed_ahead(models: dict[str, Model]) -> None:
    counted = Counted(50)
    async with running(2) as engine, aclosing(engine.chunks(models["tiny"], counted.chunks(), None)) as chunks:
        for place in range(10):
            assert await anext(chunks) == place
            await asyncio.sleep(0.02)
            assert counted.computed <= place + 1 + engine.chunks_ahead
        assert [place async for place in chunks] == list(range(10, 50))


@on_loop
async def test_closing_a_stream_of_chunks_leaves_nothing(models: dict[str, Model]) -> None:
    counted, count = Counted(50), Count()
    async with running(1, count) as engine:
        async with aclosing(engine.chunks(models["tiny"], counted.chunks(), None)) as chunks:
            await anext(chunks)
            assert count.calls == 1
        assert (count.calls, count.waiting) == (0, 0)
    assert counted.computed < 50


@on_loop
async def test_a_chunk_that_fails_ends_the_stream(models: dict[str, Model]) -> None:
    async with running(1) as engine, aclosing(engine.chunks(models["tiny"], Counted(9, 3).chunks(), None)) as chunks:
        assert [await anext(chunks) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(InferenceError):
            await anext(chunks)


@on_loop
async def test_a_deadline_ends_a_stream_between_two_chunks(models: dict[str, Model]) -> None:
    deadline = asyncio.get_running_loop().time() + 0.1
    async with running(1) as engine, aclosing(engine.chunks(models["tiny"], Counted(9).chunks(), deadline)) as chunks:
        assert await anext(chunks) == 0
        await asyncio.sleep(0.15)
        with pytest.raises(DeadlineError):
            async for _ in chunks:
                pass


@on_loop
async def test_a_stream_that_is_cancelled_while_it_fails_leaves_nothing(models: dict[str, Model]) -> None:
    async def take(chunks: AsyncGenerator[int, None]) -> None:
        async with aclosing(chunks):
            async for _ in chunks:
                pass

    for turns in range(12):  # of the loop, between the failure and the cancellation
        count, counted = Count(), Counted(9, fails=3)
        async with running(1, count) as engine:
            taking = asyncio.create_task(take(engine.chunks(models["tiny"], counted.chunks(), None)))
            while not counted.failed:
                await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            taking.cancel()
            with suppress(asyncio.CancelledError, InferenceError):
                await taking
            assert count.calls == 0


@on_loop
async def test_a_stop_waits_for_streams_and_begins_no_more(models: dict[str, Model]) -> None:
    async with running(1) as engine, aclosing(engine.chunks(models["tiny"], Counted(30).chunks(), None)) as chunks:
        assert await anext(chunks) == 0
        stopping = asyncio.create_task(engine.stop(20))
        await asyncio.sleep(0.05)
        assert [place async for place in chunks] == list(range(1, 30))
        await stopping
        with pytest.raises(ModelUnavailableError):
            await anext(engine.chunks(models["tiny"], Counted(1).chunks(), None))


@on_loop
async def test_a_stream_that_outlasts_the_grace_is_told_so(models: dict[str, Model]) -> None:
    async with running(1) as engine, aclosing(engine.chunks(models["tiny"], Counted(30).chunks(), None)) as chunks:
        assert await anext(chunks) == 0
        await engine.stop(0.05)
        with pytest.raises(ModelUnavailableError):
            async for _ in chunks:
                pass
