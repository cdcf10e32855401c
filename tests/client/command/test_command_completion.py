"""Completion in a real bash, with a server behind it, and the code for the other shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from limelight.cli import server_names
from tests.client.command.people import Run
from tests.client.server import Server


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program `limelight`, as an installation has it."""
    path = tmp_path / "limelight"
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom limelight.cli import main\nsys.exit(main())\n")
    path.chmod(0o755)
    return path


def completed(program: Path, target: str, *lines: str) -> list[list[str]]:
    """What bash offers behind each line."""
    script = [f'eval "$({program} completion bash)"', "complete -p limelight > /dev/null"]
    for line in lines:
        words = " ".join(f'"{word}"' for word in line.split(" "))
        script += [f"COMP_WORDS=({words})", "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))", "COMPREPLY=()"]
        script += ["_limelight_completion limelight", 'echo "=${COMPREPLY[*]}"']
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-ec", "\n".join(script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=os.environ | {"PATH": path, "LIMELIGHT_TARGET": target},
    )
    assert done.stderr == ""
    return [line.removeprefix("=").split() for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_names_of_the_server(program: Path, server: Server) -> None:
    commands, options, models, maps, inputs = completed(
        program,
        server.target,
        "limelight att",
        "limelight attend scribe --top",
        "limelight predict s",
        "limelight attend scribe --map ",
        "limelight attend scribe -i ",
    )
    assert (commands, options) == (["attend"], ["--top-k"])
    assert models == ["scribe"]
    assert maps == ["encoder.0.self", "encoder.1.self"]
    assert inputs == ["text="]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_without_a_server_names_are_not_completed_and_nothing_is_said(program: Path) -> None:
    assert completed(program, "127.0.0.1:1", "limelight attend ") == [[]]


def test_names_that_a_shell_would_evaluate_are_not_offered() -> None:
    hostile = ['\\"<(touch x)\\"', "$(touch x)", "a;b", "a b", "`a`", "a\nb", "-rf", "*", "é", ""]
    assert server_names.plain([*hostile, "encoder.0.self", "a-1_b", "text="]) == ["a-1_b", "encoder.0.self", "text="]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_for_a_shell_asks_the_program(run: Run, shell: str) -> None:
    status, output, errors = run("completion", shell)
    assert (status, errors) == (0, "")
    assert "_LIMELIGHT_COMPLETE=complete_" + shell in output
    found = shutil.which(shell)
    if found is not None and shell != "fish":
        subprocess.run([found, "-n"], input=output, text=True, check=True, timeout=30)
