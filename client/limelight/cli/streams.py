"""Standard input, output and errors, where they are closed, nobody reads them, or they lack characters."""

import os
import sys
from contextlib import suppress


def prepare() -> None:
    """Have three streams that take whatever is printed, before anything else opens a file.

    A closed one is as if it were /dev/null: else the next file or socket would get its number, and what is printed.
    Characters that the terminal's encoding lacks, and bytes of file names that are not UTF-8, are printed as escapes.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one, since those before it are open.
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
    """Print what is nice to know, at once; nothing happens where nobody reads it, or there is no room for it."""
    try:
        print(text, flush=True)
    except OSError:
        discard_output()


def flush() -> None:
    """Write what is printed. Raises: OSError where that cannot be."""
    sys.stdout.flush()


def settle_output() -> None:
    """Leave nothing to be written when Python ends, where an error would be a page and a status of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _discard(stream)


def discard_output() -> None:
    """Have what is printed from now on, and what was not written yet, go nowhere."""
    _discard(sys.stdout)


def _discard(stream: object) -> None:
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
