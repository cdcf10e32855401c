"""Training and exporting where nothing can be written: one line, and no file that is half there."""

import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from limelight import cli

_LIMELIGHT = Path(sys.executable).with_name("limelight")
_SMALL = 16 * 1024  # bytes a file may have, fewer than weights need


# Python cuts off what it compiles where there is no room for it, and says nothing: later processes fail.
_ENVIRONMENT = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}


def limelight(*arguments: str | Path) -> int:
    """Run the command line here: to import PyTorch again takes longer than all that is done."""
    return cli.main([str(each) for each in arguments])


def limited(*arguments: str | Path) -> str:
    """Run the command line with files of at most `_SMALL` bytes: what it says."""
    before = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (_SMALL, _SMALL))
    command: list[str | Path] = [_LIMELIGHT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=before, env=_ENVIRONMENT, check=False)
    return told(done.returncode, done.stderr)


def told(status: int, errors: str) -> str:
    """The one line that says what went wrong."""
    assert status == 1 and "Traceback" not in errors, errors
    *_, last = errors.strip().splitlines()
    assert last.startswith("limelight: "), errors
    return last


def left(folder: Path) -> list[str]:
    """Hidden files, which temporary ones are."""
    return [str(each) for each in folder.rglob(".*")]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "films.tsv"
    path.write_text("".join(f"{('good', 'bad')[n % 2]}\t{('fine', 'dull')[n % 2]} film {n}\n" for n in range(60)))
    return path


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "films"
    assert limelight("train", "han", "--data", data, "--out", out, "--epochs", "1") == 0
    return out


def test_training_with_files_that_may_not_grow_says_so(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = limited("train", "han", "--data", data, "--out", out, "--epochs", "1")
    assert "weights.safetensors: cannot be written (File too large)" in said
    assert not left(tmp_path) and not (out / "weights.safetensors").exists()


@pytest.mark.parametrize("below", ["file", "file/deeper"])
def test_training_into_what_is_no_folder_says_so(
    data: Path, tmp_path: Path, below: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    status = limelight("train", "han", "--data", data, "--out", tmp_path / below, "--epochs", "1")
    assert str(tmp_path / "file") in told(status, capsys.readouterr().err)


def test_an_export_with_files_that_may_not_grow_says_so(run: Path, tmp_path: Path) -> None:
    said = limited("export", run, "--repository", tmp_path / "models")
    assert "File too large" in said and "cannot be written" in said
    assert not left(tmp_path) and not list(tmp_path.rglob("bundle.json"))


def test_an_export_into_what_is_no_folder_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    status = limelight("export", run, "--repository", tmp_path / "file")
    assert "han/1 cannot be written" in told(status, capsys.readouterr().err)


# Commands one after the other in one process, as importing PyTorch takes longer than all that is done: the status and
# the errors of each, and then the hidden files that are left, a line of JSON.
_COMMANDS = """
import contextlib, io, json, pathlib, sys
from limelight import cli
folder, *commands = json.loads(sys.argv[1])
for command in commands:
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = cli.main(command)
    print(json.dumps([status, errors.getvalue(), [str(each) for each in pathlib.Path(folder).rglob(".*")]]))
"""


def in_a_small_file_system(folder: Path, options: str, *commands: list[str]) -> list[tuple[int, str, list[str]]]:
    """Run commands with a file system of its own on a folder. Skips where this machine does not allow that.

    Returns: of each command its status, its errors, and the hidden files that it leaves.
    """
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        pytest.skip("needs unshare, as root")
    mount = f"mount -t tmpfs -o {options} tmpfs {shlex.quote(str(folder))}"
    if subprocess.run([unshare, "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    command = shlex.join([sys.executable, "-c", _COMMANDS, json.dumps([str(folder), *commands])])
    whole = [unshare, "-m", "sh", "-c", f"{mount} && {command}"]
    done = subprocess.run(whole, capture_output=True, text=True, env=_ENVIRONMENT, check=False)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("options", "reason"), [("size=150k", "No space left on device"), ("size=150k,ro", "Read-only file system")]
)
def test_training_and_exporting_into_a_file_system_without_room_say_so(
    data: Path, run: Path, tmp_path: Path, options: str, reason: str
) -> None:
    train = ["train", "han", "--data", str(data), "--out", f"{tmp_path}/run", "--epochs", "2"]
    export = ["export", str(run), "--repository", f"{tmp_path}/models"]
    done = in_a_small_file_system(tmp_path, options, train, export)
    assert len(done) == 2
    for status, errors, hidden in done:
        assert reason in told(status, errors) and not hidden
