"""The command line `limelight`.

Other packages add commands through entry points in the group `limelight.commands`; each command is a function with
typer annotations. A `limelight.base.commands.CommandError` becomes one line of output and an exit status.
"""

import sys
from collections.abc import Sequence

_NEEDS = {"typer", "rich", "click", "shellingham"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit status.

    Returns: 0 for success, 1 for a failure, 2 for wrong usage, 130 for Ctrl-C.
    """
    from limelight.base import streams

    streams.prepare()
    try:
        from limelight.cli import application
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDS:
            raise
        from limelight.base import installing

        print(f"limelight: the command line needs {error.name}: {installing.client()}", file=sys.stderr)
        return 1
    return application.run(list(sys.argv[1:] if arguments is None else arguments))
