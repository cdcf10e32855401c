"""`limelight completion`: the code by which a shell completes command lines.

The shell then runs `limelight` with the words so far in its environment, and typer answers.
"""

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

_PROGRAM, _ASKED = "limelight", "_LIMELIGHT_COMPLETE"
# The words so far: of bash by line, of others as typed.
_WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")


class Shell(StrEnum):
    """A shell that can complete."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the code by which a shell completes commands, options and names: `eval "$(limelight completion bash)"`

    For every new shell, put this line into ~/.bashrc or ~/.zshrc (there after compinit); for fish, write the code into
    ~/.config/fish/completions/limelight.fish. Names of models, inputs and maps are those of the running server.
    """
    completion_init()
    print(get_completion_script(prog_name=_PROGRAM, complete_var=_ASKED, shell=shell.value))


def words() -> list[str] | None:
    """Return the words behind the program that a shell wants completed; None if no shell asks."""
    if _ASKED not in os.environ:
        return None
    completion_init()
    return next((os.environ[name].split() for name in _WORDS if name in os.environ), [])[1:]
