"""Commands come from entry points, are imported when they are called, and work as pasted where they are printed."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Annotated

import pytest
import typer

from limelight.base import installing
from limelight.base.commands import CommandError
from limelight.base.program import command_line, program
from limelight.cli import commands
from tests.client.command.people import Run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> dict[str, metadata.EntryPoint]:
    """Replaces the installed commands."""
    added: dict[str, metadata.EntryPoint] = {}
    monkeypatch.setattr(commands, "installed_commands", lambda: added)
    return added


def greet(name: Annotated[str, typer.Argument()], loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    """Greet somebody."""
    if name == "nobody":
        raise CommandError("there is nobody", status=3)
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
    extras = {"serve": "serve", "demo": "serve", "train": "train", "export": "train", "mechanisms": "train"}
    for name, extra in extras.items():
        line = f"limelight: '{name}' is not installed: {installing.extra(extra)}\n"
        assert run(name) == (1, "", line)
    entry_points["serve"] = metadata.EntryPoint("serve", "missing_runtime:serve", commands.GROUP)
    status, _, errors = run("serve", "--help")
    assert status == 1
    assert errors.startswith("limelight: 'serve' needs missing_runtime, which is not installed: ")


@pytest.mark.parametrize(
    ("missing", "line", "extra"),
    [
        ("scipy", ("evaluate", "tiny", "--data", "x"), "evaluate"),
        ("httpx", ("bench", "tiny", "--protocol", "http"), "bench"),
    ],
)
def test_what_a_command_needs_beside_the_client_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, missing: str, line: tuple[str, ...], extra: str
):
    for name in [each for each in sys.modules if each.startswith("limelight.cli.evaluate") or each == missing]:
        monkeypatch.delitem(sys.modules, name)
    for name in [each for each in sys.modules if each.startswith("limelight.evaluation")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    status, _, errors = run(*line)
    assert status == 1 and f"needs {missing}" in errors and f"client[{extra}]" in errors


def test_what_is_missing_is_installed_into_the_environment_that_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "client").mkdir()
    monkeypatch.setattr(installing, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert installing.extra("train") == f"run 'make dev' in {tmp_path}"
    monkeypatch.chdir(tmp_path)
    assert installing.extra("train") == "run 'make dev'"
    monkeypatch.setattr(sys, "prefix", "/somewhere/else")
    assert installing.extra("train") == shlex.join(
        [sys.executable, "-m", "pip", "install", "--editable", f"{tmp_path}/client", "--editable", f"{tmp_path}[train]"]
    )
    monkeypatch.setattr(installing, "_CHECKOUT", tmp_path / "none")
    assert installing.extra("train") == f"{sys.executable} -m pip install 'limelight[train]'"
    monkeypatch.setattr(installing, "_is_installed", lambda _: False)
    assert installing.extra("serve") == (
        f"in a checkout of Limelight, {sys.executable} -m pip install ./client '.[serve]'"
    )
    assert installing.client() == f"in a checkout of Limelight, {sys.executable} -m pip install './client[cli]'"
    assert "\ndev:" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_what_messages_say_to_install_is_there_to_be_installed():
    """Nothing is on a package index: what helps is this checkout, with an extra that it has."""
    named = {command.extra for command in commands.KNOWN.values() if command.extra}
    application = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert named <= set(application["optional-dependencies"])
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "cli" in client["optional-dependencies"]
    for package in ("client", "bundle", "models", "export", "service"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            wrong = re.findall(r"(?:install|needs:?) '?limelight(?:-client)?\[", text)
            assert not wrong, f"{path.relative_to(ROOT)} names a package that no index has"


def test_help_names_every_command_and_imports_none():
    program = """
import sys
from limelight.cli import main
status = main(["--help"])
heavy = {"torch", "onnxruntime", "onnx", "grpc", "numpy"} & set(sys.modules)
heavy |= {each for each in sys.modules if each.startswith("limelight_")}
sys.exit(f"imported {heavy}" if heavy else status)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name in commands.KNOWN:
        assert re.search(rf"^ +{name} ", done.stdout, re.M)


def test_known_commands_lead_somewhere():
    for name, command in commands.KNOWN.items():
        assert command.function or command.extra, name
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
        assert re.fullmatch(rf"limelight: .* needs? {missing}.* -m pip install .*client\[cli\]'?\n", done.stderr)


def test_the_version_is_that_of_the_distribution(run: Run):
    status, output, _ = run("--version")
    assert status == 0
    assert re.fullmatch(r"limelight \d+\.\d+\.\d+.*\n", output)


def test_a_program_on_the_path_is_its_name_and_another_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my bin"
    folder.mkdir()
    path = folder / "limelight"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert command_line("export", Path("a run"), "--version", 0) == "'my bin/limelight' export 'a run' --version 0"
    monkeypatch.chdir("/")
    assert program() == f"'{path.relative_to('/')}'"
    monkeypatch.setenv("PATH", str(folder))
    assert program() == "limelight"
    monkeypatch.setattr(sys, "argv", ["/some/where/pytest"])
    assert program() == "limelight"
