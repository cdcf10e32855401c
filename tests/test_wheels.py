"""Installed wheels are enough, and their names collide with nothing that a project of a user's own is called."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

import pytest

import limelight
from tests.kit.wheels import ROOT, application_wheel, client_wheel, run

pytestmark = pytest.mark.slow
COMMON = ("models.py", "export.py", "bundle", "service", "tests", "docs")


def names(wheel: Path) -> set[str]:
    """The files that a wheel installs."""
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_no_two_distributions_own_a_file() -> None:
    client, application = names(client_wheel()), names(application_wheel())
    assert {name.partition("/")[0] for name in client} == {"limelight"}
    ours = {f"limelight_{name}" for name in ("bundle", "models", "export", "service")}
    assert {name.partition("/")[0] for name in application} == ours
    assert {"limelight_bundle/v1/bundle_pb2.py", "limelight_service/demo_models/dates/1/bundle.json"} < application
    assert "limelight/v1/service_pb2.py" in client


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with both wheels; the one that runs the tests lends what they need."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", "--no-index", "--no-compile",
        client_wheel(), application_wheel())  # fmt: skip
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib"))
    return python.parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of a user's own, whose modules have the names that ours had, and end whoever imports them."""
    for name in COMMON:
        file = tmp_path / name if name.endswith(".py") else tmp_path / name / "__init__.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text("raise SystemExit(f'imported {__file__}')")
    return tmp_path


@contextmanager
def served(*command: object, folder: Path) -> Iterator[str]:
    """The address of a server that a command starts in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    words = [*map(str, command), "--port", "0", "--metrics-port", "0"]
    with subprocess.Popen(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            found = re.search(r"[Ss]erving on (127\.0\.0\.1:\d+)", running.stdout.readline())
            assert found
            yield found[1]
        finally:
            running.terminate()
            running.communicate()


def test_the_example_of_modules_is_exported_and_served_in_any_project(installed: Path, project: Path) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = (each for each in re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S) if "export_module" in each)
    (project / "mine.py").write_text(code)
    done = subprocess.run([installed / "python", "mine.py"], cwd=project, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    with (
        served(installed / "limelight", "serve", "--repository", "build/models", "--provider", "cpu", folder=project)
        as address, limelight.Client(address) as client
    ):  # fmt: skip
        assert [each.name for each in client.models()] == ["motion"]


def test_the_demo_needs_no_checkout(installed: Path, project: Path) -> None:
    with (
        served(installed / "limelight", "demo", "--http-port", "0", folder=project) as address,
        limelight.Client(address) as client,
    ):
        assert client.predict("dates", {"text": "7 March 2021"}).text == "2021-03-07"


def test_without_the_application_the_door_to_exports_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    code = "import sys; sys.path[:0] = [sys.argv[1]]; from limelight.base import parts; parts.load = lambda _: None\n"
    code += "try:\n    from limelight import export\nexcept ModuleNotFoundError as error:\n    print(error)"
    said = run(installed / "python", "-c", code, tmp_path)
    assert re.fullmatch(r"limelight\.export is not installed: .* -m pip install .*limelight\[train,serve\].*\n", said)
