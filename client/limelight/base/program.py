"""Command lines of this program that work as pasted."""

import shlex
import shutil
import sys
from pathlib import Path

_NAME = "limelight"


def command_line(*arguments: object) -> str:
    """Return a command line of the running program that works as pasted in the current folder."""
    return f"{program()} {shlex.join(map(str, arguments))}"


def program() -> str:
    """Return the name of the running program, or its path from the current folder if no name is enough."""
    path = Path(sys.argv[0]).absolute()
    if path.name != _NAME or shutil.which(_NAME) == str(path):
        return _NAME
    try:
        return shlex.quote(str(path.relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(path))
