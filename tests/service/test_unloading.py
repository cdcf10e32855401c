"""A model that is unloaded is gone entirely: calls that use it finish, then nothing is left of it anywhere."""

import asyncio
import gc
import os
import shutil
import urllib.request
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from limelight.v1 import service_pb2
from service.engine.model import Model
from service.engine.sessions import Session
from service.errors import ModelNotFoundError, ModelUnavailableError
from tests.service import bundles
from tests.service.serving import Running, attend, eventually, free_port, generate, predict, refusal, serving, text

Result = TypeVar("Result")
PAGE = os.sysconf("SC_PAGE_SIZE")
MEBIBYTE = 2**20


def on_loop(running: Running, work: Coroutine[Any, Any, Result]) -> Result:
    """Run something on the server's event loop and wait for it."""
    return asyncio.run_coroutine_threadsafe(work, running.loop).result(timeout=60)


def scrape(running: Running) -> str:
    page: bytes = urllib.request.urlopen(running.server.metrics_url, timeout=10).read()
    return page.decode()


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def left() -> list[str]:
    """The models and graphs that are anywhere in this process, without collecting what only keeps itself."""
    return sorted(each.name for each in gc.get_objects() if isinstance(each, Model | Session))


@contextmanager
def no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    bundles.tiny(tmp_path, "steady")
    with serving(tmp_path, metrics_port=free_port()) as running:
        yield running


def test_a_hundred_models_come_and_go_and_nothing_of_them_is_left(running: Running, tmp_path: Path) -> None:
    repository = running.server.repository
    for name in ("first", "second"):
        bundles.tiny(tmp_path, name)
    for name in ("third", "fourth"):
        bundles.echo(tmp_path, name)
    names = ("first", "second", "third", "fourth")
    gc.collect()
    before, at_first = 0, left()
    for turn in range(25):
        for name in names:
            assert on_loop(running, repository.load_version(name, 1)).is_default
            running.stub.Predict(predict(name, text("the cat")))
            running.stub.Attend(attend(name, text("a dog ran")))
            assert len(running.stub.ListModels(service_pb2.ListModelsRequest()).models) > 1
        assert all(f'model="{name}"' in scrape(running) for name in names)
        with no_collection():  # weights have to go at once, not when the interpreter happens to look for cycles
            for name in names:
                on_loop(running, repository.unload(name, 1))
            assert eventually(lambda: left() == at_first)
        if turn == 9:
            before = resident()
    # Sixty models since; one holds about 0.8 MiB.
    assert resident() - before < 12 * MEBIBYTE
    page = scrape(running)
    assert not [name for name in names if f'model="{name}"' in page] and 'model="steady"' in page
    assert [each.name for each in repository.statuses()] == ["steady"]
    assert running.stub.Predict(predict("steady", text("the cat"))).predictions


def test_a_model_that_was_only_checked_has_four_lines(running: Running, tmp_path: Path) -> None:
    for make in (bundles.tiny, bundles.echo):
        folder = make(tmp_path, "new")
        on_loop(running, running.server.repository.load_version("new", 1))
        lines = [line.partition("{")[0] for line in scrape(running).splitlines() if 'model="new"' in line]
        assert sorted(lines) == [
            "limelight_inflight_requests",
            "limelight_model_info",
            "limelight_model_ready",
            "limelight_queue_depth",
        ]
        on_loop(running, running.server.repository.unload("new", 1))
        shutil.rmtree(folder.path)


def test_a_call_that_uses_a_model_finishes_and_no_other_finds_it(running: Running, tmp_path: Path) -> None:
    bundles.echo(tmp_path, "endless", max_new_tokens=100_000, endless=True)
    repository = running.server.repository
    on_loop(running, repository.load_version("endless", 1))
    request = generate("endless", text("the cat"))
    stream = running.stub.Generate(request)
    next(stream), next(stream)
    unloading = asyncio.run_coroutine_threadsafe(repository.unload("endless", 1), running.loop)
    with pytest.raises(TimeoutError):
        unloading.result(timeout=0.2)
    with pytest.raises(grpc.RpcError) as caught:
        running.stub.Predict(predict("endless", text("the cat")))
    assert refusal(caught.value).reason == "MODEL_NOT_FOUND"
    next(stream), next(stream)
    stream.cancel()
    unloading.result(timeout=30)
    assert 'model="endless"' not in scrape(running)
    assert running.stub.Predict(predict("steady", text("the cat"))).predictions


def test_the_default_is_the_highest_that_is_left(running: Running, tmp_path: Path) -> None:
    repository = running.server.repository
    bundles.tiny(tmp_path, "steady", version=3)
    assert on_loop(running, repository.load_version("steady", 3)).is_default
    assert not repository.status("steady", 1).is_default
    answered = running.stub.Predict(predict("steady", text("the cat")))
    assert answered.predictions[0].provenance.model.version == 3
    with pytest.raises(ModelUnavailableError, match="there already"):
        on_loop(running, repository.load_version("steady", 3))
    on_loop(running, repository.unload("steady", 3))
    assert repository.status("steady").version == 1 and repository.status("steady").is_default
    page = scrape(running)
    assert 'limelight_model_ready{model="steady",version="1"} 1' in page and 'version="3"' not in page
    assert 'limelight_queue_depth{model="steady"}' in page
    with pytest.raises(ModelNotFoundError):
        on_loop(running, repository.unload("steady", 3))
    with pytest.raises(ModelNotFoundError):
        on_loop(running, repository.load_version("steady", 4))


def test_a_version_that_is_refused_leaves_the_others_and_can_be_taken_out(running: Running, tmp_path: Path) -> None:
    broken = bundles.tiny(tmp_path, "steady", version=2)
    (broken.path / "model.onnx").write_bytes(b"something else")
    repository = running.server.repository
    assert "model.onnx" in on_loop(running, repository.load_version("steady", 2)).reason
    assert repository.status("steady").version == 1
    listed = running.stub.ListModels(service_pb2.ListModelsRequest()).models
    assert [(each.model.version, each.is_default) for each in listed] == [(1, True), (2, False)]
    on_loop(running, repository.unload("steady", 2))
    listed = running.stub.ListModels(service_pb2.ListModelsRequest()).models
    assert [(each.model.version, each.is_default) for each in listed] == [(1, True)]
