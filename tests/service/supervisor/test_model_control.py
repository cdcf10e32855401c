"""Models come and go while a server runs: as its folder changes, or by calls; and no caller notices."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

import limelight
from hostile.swaps import swap
from limelight.v1 import service_pb2
from limelight_service.open_inference import open_inference_pb2 as pb
from limelight_service.security.tokens import entry, new_token
from tests.kit import bundles
from tests.kit.processes import engines, process, scrape, started
from tests.kit.serving import Running, eventually, free_port, predict, refusal, serving, text
from tests.service.open_inference.calls import infer, texts, unary

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=[0, 1], ids=["one-process", "a-frontend"])
def polled(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    """A server that follows its folder, with one model."""
    bundles.tiny(tmp_path)
    settings = {"model_control": "poll", "poll_seconds": 0.1, "metrics_port": free_port(), "frontends": request.param}
    with serving(tmp_path, **settings) as running:
        yield running


def listed(running: Running) -> dict[tuple[str, int], str]:
    """The state of every version, or why it was refused; a star marks the default."""
    statuses = running.stub.ListModels(service_pb2.ListModelsRequest(), timeout=60).models
    ready = service_pb2.MODEL_STATE_READY
    return {
        (each.model.name, each.model.version): (each.reason or ("ready" if each.state == ready else "loading"))
        + ("*" if each.is_default else "")
        for each in statuses
    }


def version(running: Running, model: str = "tiny") -> int:
    """The version that answers."""
    answer = running.stub.Predict(predict(model, text("the cat")), timeout=60)
    return int(answer.predictions[0].provenance.model.version)


def test_a_folder_is_followed_unless_it_is_broken_or_empty_at_once(polled: Running, tmp_path: Path) -> None:
    bundles.tiny(tmp_path, version=2)
    bundles.paper(tmp_path)
    assert eventually(lambda: listed(polled) == {("paper", 1): "ready*", ("tiny", 1): "ready", ("tiny", 2): "ready*"})
    assert version(polled) == 2
    shutil.rmtree(tmp_path / "tiny" / "1")
    shutil.rmtree(tmp_path / "paper")
    assert eventually(lambda: listed(polled) == {("tiny", 2): "ready*"})
    assert version(polled) == 2
    assert 'limelight_model_ready{model="tiny",version="1"}' not in scrape(polled.server.metrics_port)

    away = tmp_path.with_name("away")
    shutil.move(tmp_path / "tiny", away)
    assert not eventually(lambda: not listed(polled), 1.5)
    shutil.move(away, tmp_path / "tiny")
    assert version(polled) == 2

    broken = bundles.tiny(tmp_path / ".staged", version=3)
    (broken.path / "model.onnx").write_bytes(b"something else")
    shutil.move(broken.path, tmp_path / "tiny" / "3")
    assert eventually(lambda: "model.onnx" in listed(polled).get(("tiny", 3), ""))
    assert listed(polled)["tiny", 2] == "ready*" and version(polled) == 2
    assert scrape(polled.server.metrics_port)['limelight_model_ready{model="tiny",version="3"}'] == 0
    shutil.rmtree(tmp_path / "tiny" / "2")  # the only one that can answer stays, whatever the folder says
    bundles.paper(tmp_path)  # what comes after that is seen after that
    assert eventually(lambda: ("paper", 1) in listed(polled))
    assert version(polled) == 2
    shutil.rmtree(tmp_path / "tiny" / "3")
    bundles.tiny(tmp_path, version=3)
    assert eventually(lambda: listed(polled) == {("paper", 1): "ready*", ("tiny", 3): "ready*"})
    assert version(polled) == 3


def test_an_engine_that_is_started_again_has_what_the_folder_had(tmp_path: Path) -> None:
    bundles.tiny(tmp_path)
    with serving(tmp_path, model_control="poll", poll_seconds=0.1, frontends=1) as running:
        bundles.tiny(tmp_path, version=2)
        assert eventually(lambda: listed(running).get(("tiny", 2)) == "ready*")
        (engine,) = engines(os.getpid())
        os.kill(engine, signal.SIGKILL)
        assert eventually(lambda: engines(os.getpid()) not in ([], [engine]), 60)
        assert eventually(lambda: listed(running) == {("tiny", 1): "ready", ("tiny", 2): "ready*"}, 60)


@pytest.mark.parametrize(("control", "frontends"), [("explicit", 2), ("poll", 0)])
def test_versions_take_each_others_place_and_no_call_fails(control: str, frontends: int) -> None:
    found = swap(control, frontends, swaps=4, callers=4)
    assert not found.failed
    assert len(found.versions) >= 3 and set(found.answered) == {"predict", "attend", "infer", "generate"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of a model for each test below."""
    folder = tmp_path_factory.mktemp("repository")
    for name in ("called", "commanded", "asked"):
        bundles.tiny(folder, name)
    return folder


@pytest.fixture(scope="module")
def explicit(folder: Path) -> Iterator[Running]:
    """A server of several processes whose callers load and unload."""
    with serving(folder, model_control="explicit", frontends=2) as running:
        yield running


def listed_of(running: Running, name: str) -> dict[int, str]:
    """The states of a model's versions."""
    return {version: state for (each, version), state in listed(running).items() if each == name}


def test_the_repository_calls_load_the_newest_version_and_unload_all(explicit: Running, folder: Path) -> None:
    def change(method: str, name: str, **fields: Any) -> None:
        request, response = getattr(pb, f"{method}Request"), getattr(pb, f"{method}Response")
        unary(explicit.channel, method, request(model_name=name, **fields), response)

    def told(*arguments: Any, **fields: Any) -> str:
        with pytest.raises(grpc.RpcError) as caught:
            change(*arguments, **fields)
        return refusal(caught.value).code

    bundles.tiny(folder, "called", version=3)
    bundles.tiny(folder, "called", version=2)
    change("RepositoryModelLoad", "called")
    change("RepositoryModelLoad", "called")  # which has the newest version already
    assert listed_of(explicit, "called") == {1: "ready", 3: "ready*"}
    assert infer(explicit.channel, "called", {"text": texts("the cat")}, "logits")["logits"].shape == (1, 3)
    change("RepositoryModelUnload", "called")
    assert eventually(lambda: not listed_of(explicit, "called"))
    assert told("RepositoryModelUnload", "called") == "NOT_FOUND"
    assert told("RepositoryModelLoad", "nothing") == "NOT_FOUND"
    (folder / "called" / "3" / "model.onnx").write_bytes(b"something else")
    assert told("RepositoryModelLoad", "called") == "FAILED_PRECONDITION"
    value = pb.ModelRepositoryParameter(string_param="{}")
    assert told("RepositoryModelLoad", "called", parameters={"config": value}) == "INVALID_ARGUMENT"


def test_the_command_line_loads_and_unloads(explicit: Running, folder: Path) -> None:
    def limelight_(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "limelight.cli", *arguments, "--target", explicit.server.address]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return result.returncode, result.stdout + result.stderr

    bundles.tiny(folder, "commanded", version=2)
    assert limelight_("load", "commanded") == (0, "commanded version 2 is ready, the default version\n")
    assert limelight_("unload", "commanded", "--version", "1") == (0, "commanded version 1 is unloaded\n")
    assert listed_of(explicit, "commanded") == {2: "ready*"}
    status, message = limelight_("load", "nothing")
    assert status == 1 and "the repository has no model 'nothing'" in message


def test_clients_load_and_unload(explicit: Running, folder: Path) -> None:
    bundles.tiny(folder, "asked", version=2)
    with limelight.Client(explicit.server.address) as client:
        loaded = client.load_model("asked", 2)
        assert (loaded.version, loaded.state, loaded.default) == (2, "ready", True)
        client.unload_model("asked", 1)
        with pytest.raises(limelight.Error, match="no version 1"):
            client.unload_model("asked", 1)


@pytest.mark.parametrize("frontends", [0, 1])
def test_a_hang_up_has_tokens_read_again_at_once_and_ends_nothing(tmp_path: Path, frontends: int) -> None:
    bundles.tiny(tmp_path / "models")
    file, first, second = tmp_path / "tokens.toml", new_token(), new_token()
    file.write_text(entry("one", first, {}))
    flags = ("--repository", str(tmp_path / "models"), "--port", "0", "--metrics-port", "0", "--provider", "cpu")
    flags += ("--tokens", str(file), "--frontends", str(frontends))
    with process(*flags) as (running, logged):
        address = started(running)

        def answers(token: str) -> Callable[[], bool]:
            def asked() -> bool:
                with limelight.Client(address, token=token, attempts=1) as client:
                    try:
                        return bool(client.predict("tiny", {"text": "the cat"}).results)
                    except limelight.Error as error:
                        assert error.code.name == "UNAUTHENTICATED"
                        return False

            return asked

        assert answers(first)() and not answers(second)()
        file.write_text(entry("two", second, {}))
        running.send_signal(signal.SIGHUP)
        assert eventually(answers(second)) and not answers(first)()
        running.terminate()
        assert running.wait(timeout=60) == 0
    assert any("SIGHUP" in line for line in logged)
