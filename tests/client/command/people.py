"""A person at a terminal."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable

# Runs the command line: exit status, output, errors.
Run = Callable[..., tuple[int, str, str]]
COMMAND = [sys.executable, "-m", "limelight.cli"]
# In a background job SIGINT is ignored, and a process that such a job starts ignores it as well.
HEARS_CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from limelight.cli import main
sys.exit(main())
"""


def in_terminal(*arguments: str, **variables: str) -> str:
    """The command's output on a terminal. variables: of the environment."""
    leader, follower = pty.openpty()
    environment = os.environ | {
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "COLUMNS": "100",
        **variables,
    }
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen([*COMMAND, *arguments], stdout=follower, stderr=follower, env=environment)
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # how Linux says that the other side has closed
            break
        if not piece:
            break
        seen += piece
    os.close(leader)
    assert process.wait(30) == 0, seen.decode()
    return seen.decode()


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")
