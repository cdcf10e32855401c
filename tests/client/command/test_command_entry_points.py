"""Commands come from entry points, and are imported when they are called."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Annotated

import pytest
import typer

from limelight import cli
from limelight.cli import commands
from tests.client.command.people import Run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> dict[str, metadata.EntryPoint]:
    """Replaces the installed commands."""
    added: dict[str, metadata.EntryPoint] = {}
    monkeypatch.setattr(commands, "added", lambda: added)
    return added


def greet(name: Annotated[str, typer.Argument()], loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    """Greet somebody."""
    if name == "nobody":
        raise cli.CommandError("there is nobody", status=3)
    if name == "numpy":
        raise ModuleNotFoundError("No module named 'tensorcore'", name="tensorcore")
    print(f"hello {name.upper() if loud else name}")


def test_a_command_is_added_by_its_entry_point(run: Run, entry_points: dict[str, metadata.EntryPoint]):
    entry_points["greet"] = metadata.EntryPoint("greet", f"{__name__}:greet", commands.GROUP)
    assert run("greet", "you", "--loud") == (0, "hello YOU\n", "")
    assert "Greet somebody." in run("greet", "--help")[1]
    assert re.search(r"^ +greet +From tests\.$", run("--help")[1], re.M)
    assert run("greet", "nobody") == (3, "", "limelight: there is nobody\n")
    assert run("greet", "numpy") == (1, "", "limelight: 'greet' needs tensorcore, which is not installed\n")


def test_a_command_that_is_not_installed_says_how_to_install_it(run: Run, entry_points: dict[str, metadata.EntryPoint]):
    for name, extra in (
        ("serve", "serve"),
        ("demo", "serve"),
        ("train", "train"),
        ("export", "train"),
        ("mechanisms", "train"),
    ):
        line = f"limelight: '{name}' is not installed: in a checkout of Limelight, pip install '.[{extra}]'\n"
        assert run(name) == (1, "", line)
    entry_points["serve"] = metadata.EntryPoint("serve", "missing_runtime:serve", commands.GROUP)
    status, _, errors = run("serve", "--help")
    assert status == 1
    assert re.fullmatch(r"limelight: 'serve' needs missing_runtime, which .*, pip install '\.\[serve\]'\n", errors)


def test_what_messages_say_to_install_is_there_to_be_installed():
    """Nothing is on a package index: what helps is this checkout, with an extra that it has."""
    named = {command.extra for command in commands.KNOWN.values() if command.extra}
    application = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert named <= set(application["optional-dependencies"])
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "cli" in client["optional-dependencies"]
    for package in ("client/limelight", "bundle", "models", "export", "service"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            wrong = re.findall(r"(?:install|needs:?) '?limelight(?:-client)?\[", text)
            assert not wrong, f"{path.relative_to(ROOT)} names a package that no index has"


def test_help_names_every_command_and_imports_none():
    program = """
import sys
from limelight.cli import main
status = main(["--help"])
heavy = {"torch", "onnxruntime", "onnx", "grpc", "numpy", "service", "models", "export"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else status)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name in commands.KNOWN:
        assert re.search(rf"^ +{name} ", done.stdout, re.M)


def test_known_commands_lead_somewhere():
    for name, command in commands.KNOWN.items():
        assert bool(command.function) != bool(command.extra), name
        if command.function:
            assert callable(commands.load(name))


def test_without_its_packages_the_command_line_says_what_to_install():
    program = """
import sys
class Without:
    def find_spec(self, name, path=None, target=None):
        if name in {MISSING}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Without())
from limelight.cli import main
sys.exit(main(ARGUMENTS))
"""
    for missing in ("typer", "rich"):
        code = program.replace("{MISSING}", f"{{{missing!r}}}").replace("ARGUMENTS", "['models']")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 1
        assert re.fullmatch(rf"limelight: .* needs? {missing}.*, pip install '\./client\[cli\]'\n", done.stderr)


def test_the_version_is_that_of_the_distribution(run: Run):
    status, output, _ = run("--version")
    assert status == 0
    assert re.fullmatch(r"limelight \d+\.\d+\.\d+.*\n", output)
