"""Standard input, output and error, robust to closed streams, closed pipes and limited encodings."""

import os
import sys
from contextlib import suppress


def prepare() -> None:
    """Replace closed standard streams by /dev/null, before another file takes their numbers.

    Characters outside the terminal's encoding, and bytes of file names that are not UTF-8, are printed as escapes.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # open() takes the lowest free number, which is this one.
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - for as long as the program runs
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print a progress message immediately; failures to print are ignored."""
    try:
        print(text, flush=True)
    except OSError:
        discard_output()


def flush() -> None:
    """Flush standard output. Raises OSError on failure."""
    sys.stdout.flush()


def settle_output() -> None:
    """Discard unflushed output if it cannot be written, so that Python's exit does not fail."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _discard(stream)


def discard_output() -> None:
    """Discard unflushed and all further output."""
    _discard(sys.stdout)


def _discard(stream: object) -> None:
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
