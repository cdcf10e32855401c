"""`limelight serve --checkpoint`: one line from a checkpoint to a server."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import limelight
from limelight_service.configuration import SettingsError, load_settings
from tests.importing.huggingface.checkpoints import change_config
from tests.importing.huggingface.encoders import ENCODERS
from tests.kit.hub import running_hub
from tests.kit.serving import eventually


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return ENCODERS["bert"].write(tmp_path / "small", num_hidden_layers=1)


@contextmanager
def serving(folder: Path, *arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Start a server with a cache of its own, in a group of its own; it is gone afterwards, with its import."""
    kept = {name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")}
    with subprocess.Popen(
        [sys.executable, "-m", "limelight.cli", "serve", *arguments, "--port", "0", "--metrics-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept | {"LIMELIGHT_CACHE_DIR": str(folder / "cache"), "HF_HOME": str(folder / "home"), **variables},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None


def address_of(process: subprocess.Popen[str]) -> str:
    """Wait until it serves."""
    assert process.stdout
    found = re.match(r"limelight: serving on (\S+)", process.stdout.readline())
    assert found, process.stderr and process.stderr.read()
    return found[1]


def test_servers_that_start_at_once_import_a_repository_once_and_serve_it(checkpoint: Path, tmp_path: Path) -> None:
    with running_hub() as hub, ExitStack() as open_servers:
        commit = hub.publish("org/Small", checkpoint, "v1")
        arguments = ("--checkpoint", "tone=org/Small@v1 --max-tokens 20")
        started = [open_servers.enter_context(serving(tmp_path, *arguments, HF_ENDPOINT=hub.address)) for _ in range(2)]
        addresses = [address_of(each) for each in started]
        asked = len(hub.asked)
        for each in addresses:
            with limelight.Client(each) as client:
                model = client.model("tone")
                assert (model.source.repository, model.source.revision) == ("org/Small", commit)
                assert client.attend("tone", "the cat sat")["encoder.0.self"].head(0).shape[0] > 3
        shown = subprocess.run(
            [sys.executable, "-m", "limelight.cli", "models", "tone", "--target", addresses[0]],
            capture_output=True,
            text=True,
        )
        assert f"repository: org/Small\nrevision: {commit}\n" in shown.stdout
        for each in started:
            assert "torch" not in Path(f"/proc/{each.pid}/maps").read_text()
            each.terminate()
        told = [each.communicate()[1] for each in started]
        assert len(hub.asked) == asked  # only imports asked
    assert sorted(re.findall(r"org/Small: imported (\w+)", "".join(told))) == ["before", "in"]
    assert sum(hub.address in each for each in told) == 2
    assert len([each for each in (tmp_path / "cache" / "checkpoints").iterdir() if each.is_dir()]) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_import_ends_with_its_server_and_leaves_nothing_half(
    number: signal.Signals, checkpoint: Path, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with serving(tmp_path, "--checkpoint", str(checkpoint), TMPDIR=str(scratch)) as process:
        assert process.stderr and "files checked" in process.stderr.readline()
        if number == signal.SIGINT:  # as a terminal sends it: to everything at once
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        assert process.wait(timeout=30) == (-number if number == signal.SIGKILL else 0)
        rest = process.stderr.read()  # until the import has ended too
        assert process.stdout and process.stdout.read() == "" and "Traceback" not in rest
    assert {each.suffix for each in (tmp_path / "cache" / "checkpoints").iterdir()} <= {".lock"}
    assert eventually(lambda: not list(scratch.iterdir()))


def test_a_server_whose_checkpoint_cannot_be_imported_does_not_start_and_says_why(
    checkpoint: Path, tmp_path: Path
) -> None:
    change_config(checkpoint, model_type="swin")
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['transformers'] = None")  # as if not installed
    with serving(tmp_path, "--checkpoint", str(checkpoint), PYTHONPATH=str(tmp_path)) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "")
    assert errors.startswith("limelight: `limelight import` needs transformers, which is not installed: ")
    for arguments, message, status in (
        ((str(checkpoint),), "Swin cannot be imported", 1),
        ((f"{checkpoint} --pooling cls --poling",), "No such option: --poling", 2),
        ((str(tmp_path), "--cache-dir", "none"), "keeps imports in cache_dir, which is none", 2),
        ((str(tmp_path), "--cache-dir", str(tmp_path)), "it is not a folder of this user alone", 1),
    ):
        tmp_path.chmod(0o755)
        with serving(tmp_path, "--checkpoint", *arguments) as process:
            output, errors = process.communicate(timeout=60)
        assert (process.returncode, output) == (status, "")
        assert len(errors.splitlines()) == 1 and message in errors


@pytest.mark.parametrize("value", ["x y=/tmp", "tone=", "org/name --prompt 'a"])
def test_a_checkpoint_that_is_none_is_refused_by_its_setting(value: str) -> None:
    with pytest.raises(SettingsError, match="checkpoint is "):
        load_settings({"checkpoint": value}, environment={})


def test_the_settings_show_where_imports_are() -> None:
    found = load_settings({"checkpoint": ["a=/one two --task x", "org/name"], "cache_dir": "/cache"}, environment={})
    assert found.checkpoints == [("a", "/one two", ["--task", "x"]), ("", "org/name", [])]
    assert "# Checkpoints are imported to /cache/checkpoints\n" in found.to_toml()
