"""An engine is used in the same way in this process and through a connection."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import pytest

from limelight_bundle.errors import InputError
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row
from limelight_service.attention.options import Options, Selection
from limelight_service.errors import DeadlineError, ModelUnavailableError, QueueFullError, WrongModelError
from limelight_service.hosting.host import EngineHost
from limelight_service.hosting.links import FrontendLinks
from limelight_service.hosting.local import LocalEngine
from limelight_service.hosting.running import running_engine
from limelight_service.ipc.boundary import (
    ChunkResult,
    FinishReason,
    GenerationBegun,
    GenerationSettings,
    InferenceRequest,
    RowResult,
    ServedModel,
    StreamBegun,
    TokenResult,
    WaitEstimate,
)
from limelight_service.ipc.client import EngineClient, as_it_is
from limelight_service.ipc.remote import RemoteEngine
from limelight_service.observability.metrics import Metrics
from limelight_service.repository.catalogue import State
from limelight_service.settings import Settings
from tests.kit import bundles
from tests.kit.serving import CHECKS, eventually
from tests.service.metered import counted

T = TypeVar("T")
QUEUE_ROWS = 300
CHUNK = 4096
SENTENCES = ("the cat sat", "a dog ran far on the mat")


@dataclass
class Told:
    """Notices to a listener, by version."""

    states: dict[tuple[str, int], State] = field(default_factory=dict)
    served: dict[tuple[str, int], ServedModel] = field(default_factory=dict)
    gone: list[tuple[str, int]] = field(default_factory=list)
    is_loaded: bool = False
    losses: int = 0

    def model_changed(self, name: str, version: int, state: State, reason: str, served: ServedModel | None) -> None:
        """As `ModelListener.model_changed`."""
        self.states[name, version] = state
        if served is not None:
            self.served[name, version] = served

    def model_gone(self, name: str, version: int) -> None:
        """As `ModelListener.model_gone`."""
        self.gone.append((name, version))

    def loaded(self) -> None:
        """As `ModelListener.loaded`."""
        self.is_loaded = True

    def engine_lost(self) -> None:
        """As `ModelListener.engine_lost`."""
        self.losses += 1

    def engine_silent(self, silent: bool) -> None:
        """As `ModelListener.engine_silent`."""


@dataclass
class Used:
    """An engine in use, and the loop that it is used on."""

    engine: EngineClient
    host: EngineHost
    told: Told
    loop: asyncio.AbstractEventLoop
    metrics: Metrics
    links: FrontendLinks | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the engine's loop, and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def under_way(self, name: str) -> float:
        """Count the rows of a model that are in the engine."""
        return counted(self.metrics).get(f'limelight_inflight_requests{{model="{name}"}}', 0)

    def is_idle(self) -> bool:
        """True where the engine has nothing to do, and the client knows."""
        return not any(self.under_way(name) or self.engine.under_way(name, 1) for name, _ in self.told.served)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BundleFolder]:
    """Models by name."""
    repository = tmp_path_factory.mktemp("repository")
    made = [bundles.tiny(repository), bundles.echo(repository), bundles.tiny(repository, "leaving")]
    made.append(bundles.echo(repository, "endless", max_new_tokens=100_000, endless=True))
    return {each.path.parent.name: each for each in made}


@asynccontextmanager
async def local(
    host: EngineHost, load: Callable[[], Awaitable[None]]
) -> AsyncIterator[tuple[EngineClient, Told, None]]:
    """Use an engine in this process."""
    engine, told = LocalEngine(host), Told()
    engine.listen(told)
    await load()
    engine.loaded()
    yield engine, told, None


@asynccontextmanager
async def remote(
    host: EngineHost, load: Callable[[], Awaitable[None]]
) -> AsyncIterator[tuple[EngineClient, Told, FrontendLinks]]:
    """Use an engine at the other end of a pair of sockets."""
    links, engine, told = FrontendLinks(host), RemoteEngine(2**24), Told()
    here, there = socket.socketpair()
    engine.listen(told)
    engine.attach(here)
    links.attach(there)
    await load()
    links.loaded()
    while not told.is_loaded:
        await asyncio.sleep(0.01)
    yield engine, told, links
    engine.close()
    links.close()


@pytest.fixture(scope="module", params=[local, remote], ids=["local", "remote"])
def used(folders: dict[str, BundleFolder], request: pytest.FixtureRequest) -> Iterator[Used]:
    """An engine with its models, for the tests of this module."""
    started: list[Used] = []
    stop = asyncio.Event()
    ready = threading.Event()
    settings = Settings(provider="cpu", cores=2, queue_rows=QUEUE_ROWS, max_batch_rows=8)

    async def serve() -> None:
        metrics = Metrics()
        async with running_engine(settings, metrics, CHECKS) as host:
            paths = {(name, 1): folder.path for name, folder in folders.items()}
            async with request.param(host, lambda: host.store.load_until_useful(paths)) as (engine, told, links):
                started.append(Used(engine, host, told, asyncio.get_running_loop(), metrics, links))
                ready.set()
                await stop.wait()

    def target() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()

    thread = threading.Thread(target=target, name="engine")
    thread.start()
    ready.wait()
    yield started[0]
    started[0].loop.call_soon_threadsafe(stop.set)
    thread.join()


def asked(folder: BundleFolder, *rows: Row, **fields: Any) -> InferenceRequest:
    """Ask a model for all of its outputs."""
    outputs = frozenset(each.name for each in folder.bundle.description.outputs)
    model = folder.path.parent.name
    return InferenceRequest(model, 1, rows, (None,) * len(rows), outputs, **fields)


def rows_of(folder: BundleFolder, *sentences: str) -> tuple[Row, ...]:
    return tuple(bundles.row(folder, ids=bundles.ids_of(each)) for each in sentences)


def generating(most: int) -> GenerationSettings:
    return GenerationSettings(max_new_tokens=most)


async def collected(events: Any) -> list[Any]:
    return [each async for each in events]


def test_its_models_are_told(used: Used, folders: dict[str, BundleFolder]) -> None:
    assert used.told.is_loaded
    for name in folders:
        assert used.told.states[name, 1] is State.READY
        assert used.told.served[name, 1].digest == folders[name].digest


def test_rows_are_answered_in_their_order(used: Used, folders: dict[str, BundleFolder]) -> None:
    folder = folders["tiny"]
    request = asked(folder, *rows_of(folder, *SENTENCES), attention=Options())
    results = used.run(used.engine.answer(request, as_it_is))
    for sentence, result in zip(SENTENCES, results, strict=True):
        wanted = bundles.tiny_answer(bundles.ids_of(sentence))
        assert set(result.outputs) == {"logits", "features", "tags"}
        for name, array in result.outputs.items():
            np.testing.assert_allclose(array, wanted.outputs[name], rtol=1e-4, atol=1e-5)
        assert [each.name for each in result.maps] == ["encoder.0.self", "encoder.1.self", "pool"]
        for each in result.maps:
            np.testing.assert_allclose(each.weights, wanted.maps[each.name].weights, rtol=1e-3, atol=1e-5)


def test_outputs_that_nobody_asks_for_stay_in_the_engine(used: Used, folders: dict[str, BundleFolder]) -> None:
    folder = folders["tiny"]
    (result,) = used.run(
        used.engine.answer(replace(asked(folder, *rows_of(folder, "a")), outputs=frozenset({"logits"})), as_it_is)
    )
    assert set(result.outputs) == {"logits"} and result.maps == ()


def test_a_generation_is_told_token_by_token(used: Used, folders: dict[str, BundleFolder]) -> None:
    folder = folders["echo"]
    request = asked(folder, *rows_of(folder, "the cat"), generation=generating(8), attention=Options())
    begun, *tokens, whole = used.run(collected(used.engine.generate(request)))
    wanted = bundles.echo_answer(bundles.ids_of("the cat"), 8).token_ids
    assert isinstance(begun, GenerationBegun) and isinstance(whole, RowResult)
    assert all(isinstance(each, TokenResult) for each in tokens)
    assert [each.token_id for each in tokens] == list(wanted) == list(whole.sequences[0].token_ids)
    assert [each.index for each in tokens] == list(range(len(tokens)))
    assert whole.sequences[0].finish_reason in (FinishReason.END, FinishReason.LENGTH)
    assert all({one.name for one in each.maps} == {"decoder.0.cross", "decoder.0.self"} for each in tokens)
    assert [each.name for each in whole.maps] == ["encoder.0.self"]


def test_a_stream_of_chunks_is_the_whole_of_each_map(used: Used, folders: dict[str, BundleFolder]) -> None:
    folder = folders["tiny"]
    request = asked(folder, *rows_of(folder, " ".join(["the cat"] * 15)), attention=Options())
    begun, *chunks = used.run(collected(used.engine.stream(request, CHUNK)))
    (whole,) = used.run(used.engine.answer(request, as_it_is))
    assert isinstance(begun, StreamBegun) and all(isinstance(each, ChunkResult) for each in chunks)
    assert len(chunks) > len(whole.maps)
    for place, expected in enumerate(whole.maps):
        weights = np.full(expected.weights.shape, np.nan, np.float32)
        for each in chunks:
            if each.place == place:
                heads, queries = each.map.weights.shape[0], each.queries
                weights[each.first_head :][:heads, each.first_query :][:, :queries] = each.map.weights
        np.testing.assert_allclose(weights, expected.weights, rtol=1e-3, atol=1e-5)


def test_many_calls_at_once_get_each_its_own(used: Used, folders: dict[str, BundleFolder]) -> None:
    folder = folders["tiny"]
    sentences = [" ".join(["cat"] * (1 + number % 30)) for number in range(200)]

    async def all_of_them() -> list[list[RowResult]]:
        return await asyncio.gather(
            *(used.engine.answer(asked(folder, *rows_of(folder, each)), as_it_is) for each in sentences)
        )

    for sentence, (result,) in zip(sentences, used.run(all_of_them()), strict=True):
        assert len(result.outputs["features"]) == len(sentence.split())


def test_rows_of_a_cancelled_call_are_withdrawn(used: Used, folders: dict[str, BundleFolder]) -> None:
    folder = folders["endless"]
    request = asked(folder, *rows_of(folder, "the cat"), generation=generating(100_000))

    async def cancelled() -> None:
        task = asyncio.ensure_future(used.engine.answer(request, as_it_is))
        while not used.under_way("endless"):
            await asyncio.sleep(0.01)
        assert used.engine.under_way("endless", 1) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    used.run(cancelled())
    assert eventually(used.is_idle)


@pytest.mark.parametrize("events", [2, 100])
def test_a_generation_that_is_closed_is_withdrawn(used: Used, folders: dict[str, BundleFolder], events: int) -> None:
    folder = folders["endless"]
    request = asked(folder, *rows_of(folder, "the cat"), generation=generating(100_000))

    async def some() -> None:
        async with aclosing(used.engine.generate(request)) as stream:
            for _ in range(events):
                await anext(stream)
            assert used.engine.under_way("endless", 1) == 1

    used.run(some())
    assert eventually(used.is_idle)


def test_a_stream_that_is_closed_is_withdrawn(used: Used, folders: dict[str, BundleFolder]) -> None:
    folder = folders["tiny"]
    request = asked(folder, *rows_of(folder, " ".join(["the cat"] * 15)), attention=Options())

    async def first() -> Any:
        async with aclosing(used.engine.stream(request, CHUNK)) as stream:
            return await anext(stream)

    assert isinstance(used.run(first()), StreamBegun)
    assert eventually(used.is_idle)
    assert used.run(used.engine.answer(request, as_it_is))


async def raised(work: Awaitable[Any]) -> BaseException:
    """Give the error that something ends with."""
    (error,) = await asyncio.gather(work, return_exceptions=True)
    assert isinstance(error, Exception)
    return error


def test_each_kind_of_error_is_raised_as_it_is(used: Used, folders: dict[str, BundleFolder]) -> None:
    tiny, echo = folders["tiny"], folders["echo"]
    one = asked(tiny, *rows_of(tiny, "the cat"))
    later = Options(selections=(Selection(names=("decoder.0.cross",), queries=(9,)),))
    engine = used.engine

    def error(request: InferenceRequest, call: Callable[[InferenceRequest], Awaitable[Any]] | None = None) -> Any:
        return used.run(raised(engine.answer(request, as_it_is) if call is None else call(request)))

    assert isinstance(error(replace(one, model="nothing")), ModelUnavailableError)
    assert isinstance(error(replace(one, version=2)), ModelUnavailableError)
    assert isinstance(error(replace(one, deadline=1.0)), DeadlineError)
    full = error(asked(tiny, *rows_of(tiny, "the cat") * (QUEUE_ROWS + 1)))
    assert isinstance(full, QueueFullError) and full.retry_after > 0
    short = asked(echo, *rows_of(echo, "the cat"), generation=generating(2), attention=later)
    lacking = error(short)
    assert isinstance(lacking, InputError) and lacking.field.startswith("attention.selections[0].queries")

    def generated(request: InferenceRequest) -> Awaitable[Any]:
        return collected(engine.generate(request))

    assert isinstance(error(one, generated), WrongModelError)
    assert isinstance(error(replace(one, model="nothing"), generated), ModelUnavailableError)
    streamed = replace(one, model="nothing", attention=Options())
    assert isinstance(error(streamed, lambda each: collected(engine.stream(each, CHUNK))), ModelUnavailableError)
    assert used.run(engine.answer(one, as_it_is)) and eventually(used.is_idle)


def test_a_wait_is_estimated_while_rows_wait_and_is_zero_afterwards(
    used: Used, folders: dict[str, BundleFolder]
) -> None:
    folder = folders["tiny"]
    request = asked(folder, *rows_of(folder, " ".join(["cat"] * 30)) * 64)
    assert eventually(lambda: used.engine.wait("tiny", 1).seconds == 0)

    async def watched() -> WaitEstimate:
        calls = [asyncio.ensure_future(used.engine.answer(request, as_it_is)) for _ in range(4)]
        most = WaitEstimate()
        while not all(each.done() for each in calls):
            most = max(most, used.engine.wait("tiny", 1), key=lambda each: each.seconds)
            await asyncio.sleep(0)
        await asyncio.gather(*calls)
        return most

    most = WaitEstimate()
    for _ in range(20):
        most = max(most, used.run(watched()), key=lambda each: each.seconds)
        if most.seconds:
            break
    assert most.seconds > 0 and most.per_row > 0
    assert eventually(lambda: used.engine.wait("tiny", 1).seconds == 0)


def test_a_version_that_is_unloaded_answers_until_it_is_released_and_is_freed_then(
    used: Used, folders: dict[str, BundleFolder]
) -> None:
    freed: list[str] = []

    async def note(model: Any) -> None:
        freed.append(model.name)

    used.loop.call_soon_threadsafe(used.host.store.on_free, note)
    unloading = asyncio.run_coroutine_threadsafe(used.host.store.unload("leaving", 1), used.loop)
    assert eventually(lambda: used.told.gone == [("leaving", 1)])
    assert not freed and not unloading.done()
    folder = folders["leaving"]
    request = asked(folder, *rows_of(folder, "the cat"))
    assert len(used.run(used.engine.answer(request, as_it_is))) == 1  # a frontend may not have heard of it yet
    used.loop.call_soon_threadsafe(used.engine.release, "leaving", 1)
    unloading.result(60)
    assert freed == ["leaving"]
    assert isinstance(used.run(raised(used.engine.answer(request, as_it_is))), ModelUnavailableError)


class TestConnections:
    """Of an engine with connections, which come and go."""

    @pytest.fixture
    def links(self, used: Used) -> FrontendLinks:
        """The engine's side."""
        if used.links is None:
            pytest.skip("there is no connection in one process")
        return used.links

    def test_bytes_that_are_no_message_end_their_connection_and_no_other(
        self, used: Used, links: FrontendLinks, folders: dict[str, BundleFolder]
    ) -> None:
        here, there = socket.socketpair()
        with here:
            used.loop.call_soon_threadsafe(links.attach, there)
            here.settimeout(60)
            assert here.recv(2**20)  # it is told of the models, as every frontend
            here.sendall(b"\x04\x00\x00\x00\x00\xff\xff\xff\xff")
            while here.recv(2**20):
                pass
        folder = folders["tiny"]
        assert used.run(used.engine.answer(asked(folder, *rows_of(folder, "the cat")), as_it_is))

    def test_calls_under_way_are_told_when_the_engine_is_gone_and_the_next_one_answers(
        self, used: Used, links: FrontendLinks, folders: dict[str, BundleFolder]
    ) -> None:
        async def lost() -> None:
            engine, told = RemoteEngine(2**24), Told()
            engine.listen(told)
            folder = folders["endless"]
            request = asked(folder, *rows_of(folder, "the cat"), generation=generating(100_000))
            for losses in (1, 2):
                here, there = socket.socketpair()
                second = there.dup()
                engine.attach(here)
                links.attach(there)
                engine.starts_in(16.0)
                async with aclosing(engine.generate(request)) as stream:
                    await anext(stream), await anext(stream)
                    second.shutdown(socket.SHUT_RDWR)
                    second.close()
                    with pytest.raises(ModelUnavailableError) as error:
                        await collected(stream)
                assert 17 < error.value.retry_after < 19
                assert told.losses == losses
                assert isinstance(await raised(engine.answer(request, as_it_is)), ModelUnavailableError)
            engine.close()

        used.run(lost())
        assert eventually(used.is_idle)
