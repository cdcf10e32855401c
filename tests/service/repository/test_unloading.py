"""A model that is unloaded is gone entirely: calls that use it finish, then nothing is left of it anywhere."""

import gc
import os
import shutil
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from limelight.v1 import admin_pb2, service_pb2, values_pb2
from limelight_service.engine.model import Model
from limelight_service.engine.runtime.sessions import Session
from tests.kit import bundles
from tests.kit.serving import (
    Refusal,
    Running,
    attend,
    eventually,
    free_port,
    generate,
    predict,
    refusal,
    serving,
    text,
)

PAGE = os.sysconf("SC_PAGE_SIZE")
MEBIBYTE = 2**20


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
    with serving(tmp_path, metrics_port=free_port(), model_control="explicit") as running:
        yield running


def model_of(name: str, version: int) -> values_pb2.Model:
    return values_pb2.Model(name=name, version=version)


def load(running: Running, name: str, version: int = 1) -> service_pb2.ModelStatus:
    """Load a version as an operator does."""
    request = admin_pb2.LoadModelRequest(model=model_of(name, version))
    answer: bytes = admin(running, "LoadModel")(request, timeout=60)
    return admin_pb2.LoadModelResponse.FromString(answer).status


def unload(running: Running, name: str, version: int = 1) -> None:
    """Unload a version as an operator does."""
    admin(running, "UnloadModel")(admin_pb2.UnloadModelRequest(model=model_of(name, version)), timeout=60)


def admin(running: Running, method: str) -> Any:
    """Give a method of the admin service."""
    return running.channel.unary_unary(
        f"/limelight.v1.AdminService/{method}", request_serializer=lambda message: message.SerializeToString()
    )


def listed(running: Running) -> list[tuple[str, int, bool]]:
    """List the versions that there are, and whether each is the default."""
    models = running.stub.ListModels(service_pb2.ListModelsRequest()).models
    return [(each.model.name, each.model.version, each.is_default) for each in models]


def refused(call: Callable[[], Any]) -> Refusal:
    """Make a call that is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return refusal(caught.value)


def test_fifty_models_come_and_go_and_nothing_of_them_is_left(running: Running, tmp_path: Path) -> None:
    for name in ("first", "second"):
        bundles.tiny(tmp_path, name)
    for name in ("third", "fourth"):
        bundles.echo(tmp_path, name)
    names = ("first", "second", "third", "fourth")
    gc.collect()
    before, at_first = 0, left()
    for turn in range(13):
        for name in names:
            assert load(running, name).is_default
            running.stub.Predict(predict(name, text("the cat")))
            running.stub.Attend(attend(name, text("a dog ran")))
            assert len(running.stub.ListModels(service_pb2.ListModelsRequest()).models) > 1
        assert all(f'model="{name}"' in scrape(running) for name in names)
        with no_collection():  # weights have to go at once, not when the interpreter happens to look for cycles
            for name in names:
                unload(running, name)
            assert eventually(lambda: left() == at_first)
        if turn == 4:
            before = resident()
    # Thirty-two models since; one holds about 0.8 MiB.
    assert resident() - before < 8 * MEBIBYTE
    page = scrape(running)
    assert not [name for name in names if f'model="{name}"' in page] and 'model="steady"' in page
    assert listed(running) == [("steady", 1, True)]
    assert running.stub.Predict(predict("steady", text("the cat"))).predictions


def test_a_model_that_was_only_checked_has_few_lines(running: Running, tmp_path: Path) -> None:
    for make in (bundles.tiny, bundles.echo):
        folder = make(tmp_path, "new")
        load(running, "new")
        lines = [line.partition("{")[0] for line in scrape(running).splitlines() if 'model="new"' in line]
        assert sorted(lines) == [
            "limelight_attention_bytes_total",
            "limelight_inflight_requests",
            "limelight_model_info",
            "limelight_model_ready",
            "limelight_queue_depth",
            "limelight_rows_not_finite_total",
            "limelight_runs_ended_total",
        ]
        unload(running, "new")
        shutil.rmtree(folder.path)


def test_a_call_that_uses_a_model_finishes_and_no_other_finds_it(running: Running, tmp_path: Path) -> None:
    bundles.echo(tmp_path, "endless", max_new_tokens=100_000, endless=True)
    load(running, "endless")
    stream = running.stub.Generate(generate("endless", text("the cat")))
    next(stream), next(stream)
    request = admin_pb2.UnloadModelRequest(model=model_of("endless", 1))
    unloading = admin(running, "UnloadModel").future(request, timeout=60)
    assert eventually(lambda: ("endless", 1, True) not in listed(running))
    assert refused(lambda: running.stub.Predict(predict("endless", text("the cat")))).reason == "MODEL_NOT_FOUND"
    next(stream), next(stream)
    assert not unloading.done()
    stream.cancel()
    unloading.result(timeout=60)
    assert 'model="endless"' not in scrape(running)
    assert running.stub.Predict(predict("steady", text("the cat"))).predictions


def test_the_default_is_the_highest_that_is_left(running: Running, tmp_path: Path) -> None:
    bundles.tiny(tmp_path, "steady", version=3)
    assert load(running, "steady", 3).is_default
    assert listed(running) == [("steady", 1, False), ("steady", 3, True)]
    answered = running.stub.Predict(predict("steady", text("the cat")))
    assert answered.predictions[0].provenance.model.version == 3
    there = refused(lambda: load(running, "steady", 3))
    assert there.code == "UNAVAILABLE" and "ready already" in there.message
    unload(running, "steady", 3)
    assert listed(running) == [("steady", 1, True)]
    page = scrape(running)
    assert 'limelight_model_ready{model="steady",version="1"} 1' in page and 'version="3"' not in page
    assert 'limelight_queue_depth{model="steady"}' in page
    assert refused(lambda: unload(running, "steady", 3)).code == "NOT_FOUND"
    assert refused(lambda: load(running, "steady", 4)).code == "NOT_FOUND"
    assert refused(lambda: load(running, "steady", -1)).field == "model.version"
    for _ in range(2):  # the highest in the folder, whether it is there already or not
        assert load(running, "steady", 0).model.version == 3


def test_a_version_that_is_refused_leaves_the_others_and_can_be_taken_out(running: Running, tmp_path: Path) -> None:
    broken = bundles.tiny(tmp_path, "steady", version=2)
    (broken.path / "model.onnx").write_bytes(b"something else")
    status = load(running, "steady", 2)
    assert status.state == service_pb2.MODEL_STATE_FAILED and "model.onnx" in status.reason
    assert listed(running) == [("steady", 1, True), ("steady", 2, False)]
    unload(running, "steady", 2)
    assert listed(running) == [("steady", 1, True)]


def test_a_server_without_the_admin_service_has_no_such_methods(tmp_path: Path) -> None:
    with serving(tmp_path) as running, pytest.raises(grpc.RpcError) as caught:
        load(running, "steady")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED  # type: ignore[attr-defined]
