"""Completion in a real bash, zsh and fish, with a server behind it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from limelight.cli import server_names
from tests.client.command.people import Run
from tests.kit.forwarder import Forwarder


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program `limelight`, as an installation has it."""
    path = tmp_path / "limelight"
    path.write_text(f"#!{sys.executable}\nimport sys\nfrom limelight.cli import main\nsys.exit(main())\n")
    path.chmod(0o755)
    return path


def environment(program: Path) -> dict[str, str]:
    """Variables of a shell that finds the program, and no settings of a person."""
    folder = str(program.parent)
    changed = {"HOME": folder, "XDG_CONFIG_HOME": folder, "TERM": "dumb"}
    return os.environ | changed | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def completed(program: Path, *lines: str) -> list[list[str]]:
    """Completions of bash for each line."""
    script = [f'eval "$({program} completion bash)"', "complete -p limelight > /dev/null"]
    for line in lines:
        words = " ".join(f'"{word}"' for word in line.split(" "))
        script += [f"COMP_WORDS=({words})", "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))", "COMPREPLY=()"]
        script += ["_limelight_completion limelight", 'echo "=${COMPREPLY[*]}"']
    done = subprocess.run(
        ["bash", "--norc", "-ec", "\n".join(script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=environment(program),
    )
    assert done.stderr == ""
    return [line.removeprefix("=").split() for line in done.stdout.splitlines()]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_names_of_the_server(program: Path, server: Forwarder) -> None:
    commands, options, models, maps, inputs = completed(
        program,
        "limelight att",
        "limelight attend tiny --top",
        "limelight predict t",
        "limelight attend tiny --map ",
        "limelight attend tiny -i ",
    )
    assert (commands, options) == (["attend"], ["--top-k"])
    assert models == ["tiny"]
    assert maps == ["encoder.0.self", "encoder.1.self", "pool"]
    assert inputs == ["text="]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_without_a_server_names_are_not_completed_and_nothing_is_said(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMELIGHT_TARGET", "127.0.0.1:1")
    assert completed(program, "limelight attend ") == [[]]


def test_names_that_a_shell_would_evaluate_are_not_offered() -> None:
    hostile = ['\\"<(touch x)\\"', "$(touch x)", "a;b", "a b", "`a`", "a\nb", "-rf", "*", "é", ""]
    assert server_names.plain([*hostile, "encoder.0.self", "a-1_b", "text="]) == ["a-1_b", "encoder.0.self", "text="]


COMPLETED = {
    "limelight att": "attend",
    "limelight attend tiny --map encoder.1": "encoder.1.self",
}


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_and_names_of_the_server(program: Path, server: Forwarder) -> None:
    lines = [f"complete -C '{line}'" for line in COMPLETED]
    done = subprocess.run(
        ["fish", "--no-config", "-c", "; ".join(["limelight completion fish | source", *lines])],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=environment(program),
    )
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == list(COMPLETED.values())


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_commands_and_names_of_the_server(program: Path, server: Forwarder) -> None:
    pexpect = pytest.importorskip("pexpect", reason="pexpect is not installed")
    zsh = pexpect.spawn(
        "zsh",
        ["-f", "-i"],
        env=environment(program),
        encoding="utf-8",
        timeout=60,
        dimensions=(24, 200),
    )
    try:
        # The answer is written in two parts, so that the echo of the command is not taken for it.
        zsh.sendline("autoload -Uz compinit; compinit -u -D; eval \"$(limelight completion zsh)\"; echo rea''dy")
        zsh.expect_exact("ready\r\n")
        for line, word in COMPLETED.items():
            zsh.send(f"{line}\t")
            zsh.expect_exact(f"{line.rpartition(' ')[0]} {word} ")
            zsh.sendcontrol("u")
    finally:
        zsh.close(force=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_code_for_a_shell_asks_the_program(run: Run, shell: str) -> None:
    status, output, errors = run("completion", shell)
    assert (status, errors) == (0, "")
    assert "_LIMELIGHT_COMPLETE=complete_" + shell in output
    found = shutil.which(shell)
    if found is not None and shell != "fish":
        subprocess.run([found, "-n"], input=output, text=True, check=True, timeout=30)
