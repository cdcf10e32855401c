"""The `limelight` command.

Other packages add commands through entry points in the group `limelight.commands`; each is a plain function with typer
annotations. They report what a user can put right by raising `CommandError`, which becomes one line and an exit status.
"""

import sys
from collections.abc import Sequence

_NEEDS = {"typer", "rich", "click", "shellingham"}


class CommandError(Exception):
    """A command that cannot do what was asked: one line for the user, and an exit status (2 for wrong usage)."""

    def __init__(self, message: str, *, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 for what failed, 2 for wrong usage, 130 for Ctrl-C."""
    from limelight.cli import streams

    streams.prepare()
    try:
        from limelight.cli import application
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDS:
            raise
        from limelight.cli import installing

        print(f"limelight: the command line needs {error.name}: {installing.client()}", file=sys.stderr)
        return 1
    return application.run(list(sys.argv[1:] if arguments is None else arguments))
