"""Standard input, output and error, robust to closed streams, closed pipes and limited encodings.

Whatever is printed is escaped here (`limelight.base.printing.printable`): titles, labels, names and reasons are those
of a server or a bundle. What writes colours or moves the cursor on purpose uses `console` and `show_progress`.
"""

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from limelight.base.printing import printable

if TYPE_CHECKING:
    from rich.console import Console


def prepare() -> None:
    """Replace closed standard streams by /dev/null, before another file takes their numbers.

    Characters that control a terminal or are outside its encoding, and bytes of file names that are not UTF-8, are
    printed as escapes.
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
    sys.stdout, sys.stderr = _Printable.of(sys.stdout), _Printable.of(sys.stderr)


class _Printable:
    """A stream that escapes what controls a terminal."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    @classmethod
    def of(cls, stream: Any) -> Any:
        return stream if isinstance(stream, cls) else cls(stream)

    def write(self, text: str) -> int:
        self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # what is written there would not be escaped
            raise AttributeError(name)
        return getattr(self.stream, name)


def _as_it_is(stream: Any) -> Any:
    return stream.stream if isinstance(stream, _Printable) else stream


def console(**options: Any) -> "Console":
    """Return a console of rich on standard output: its colours are written, and texts are escaped."""
    from rich.console import Console
    from rich.segment import Segment

    class Escaping(Console):
        def render(self, *given: Any, **more: Any) -> Any:
            for text, style, control in super().render(*given, **more):
                yield Segment(text if control else printable(text), style, control)

    return Escaping(file=_as_it_is(sys.stdout), **options)


def show_progress(line: str) -> None:
    """Rewrite the last line of a terminal on standard error; "" removes it. Nothing where it is none."""
    if sys.stderr.isatty():
        with suppress(OSError):
            print(f"\r\x1b[K{printable(line)}", end="", file=_as_it_is(sys.stderr), flush=True)


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
