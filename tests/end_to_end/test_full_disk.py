"""Training and exporting where nothing can be written: one line, and no file that is half there."""

import os
import resource
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

_LIMELIGHT = Path(sys.executable).with_name("limelight")
_SMALL = 16 * 1024  # bytes a file may have, fewer than weights need


def limelight(*arguments: str | Path, limit: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line, with files of at most so many bytes where that is wanted."""
    before = None if limit is None else partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
    return subprocess.run(
        [_LIMELIGHT, *map(str, arguments)], capture_output=True, text=True, preexec_fn=before, check=False
    )


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what went wrong."""
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    *_, last = done.stderr.strip().splitlines()
    assert last.startswith("limelight: "), done.stderr
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
    done = limelight("train", "han", "--data", data, "--out", out, "--epochs", "1")
    assert done.returncode == 0, done.stderr
    return out


def test_training_with_files_that_may_not_grow_says_so(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = told(limelight("train", "han", "--data", data, "--out", out, "--epochs", "1", limit=_SMALL))
    assert "weights.safetensors: cannot be written (File too large)" in said
    assert not left(tmp_path) and not (out / "weights.safetensors").exists()


@pytest.mark.parametrize("below", ["file", "file/deeper"])
def test_training_into_what_is_no_folder_says_so(data: Path, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    said = told(limelight("train", "han", "--data", data, "--out", tmp_path / below, "--epochs", "1"))
    assert str(tmp_path / "file") in said


def test_an_export_with_files_that_may_not_grow_says_so(run: Path, tmp_path: Path) -> None:
    said = told(limelight("export", run, "--repository", tmp_path / "models", limit=_SMALL))
    assert "File too large" in said and "cannot be written" in said
    assert not left(tmp_path) and not list(tmp_path.rglob("bundle.json"))


def test_an_export_into_what_is_no_folder_says_so(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "han/1 cannot be written" in told(limelight("export", run, "--repository", tmp_path / "file"))


def in_a_small_file_system(folder: Path, options: str, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with a file system of its own on a folder. Skips where this machine does not allow that."""
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        pytest.skip("needs unshare, as root")
    mount = f"mount -t tmpfs -o {options} tmpfs {shlex.quote(str(folder))}"
    if subprocess.run([unshare, "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system may be mounted here")
    return subprocess.run(
        [unshare, "-m", "sh", "-c", f"{mount} && {command}"], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("options", "reason"), [("size=150k", "No space left on device"), ("size=150k,ro", "Read-only file system")]
)
def test_training_and_exporting_into_a_file_system_without_room_say_so(
    data: Path, run: Path, tmp_path: Path, options: str, reason: str
) -> None:
    hidden = f"; status=$?; find {shlex.quote(str(tmp_path))} -name '.*'; exit $status"
    for command in (
        f"train han --data {data} --out {tmp_path}/run --epochs 2",
        f"export {run} --repository {tmp_path}",
    ):
        done = in_a_small_file_system(tmp_path, options, f"{_LIMELIGHT} {command}{hidden}")
        assert reason in told(done)
        assert str(tmp_path) not in done.stdout
