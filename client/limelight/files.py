"""Files that are written: their names where a server chose them, and errors that name them."""

import hashlib
import re
from contextlib import suppress
from pathlib import Path

# The same file on every system, also where capitals do not count.
_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,95}(?<!\.)")
_UNUSUAL = re.compile(r"[^A-Za-z0-9-]+")
# Names of devices on Windows, whatever their ending.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
_KEPT = 48  # characters of an unusual name


def file_name(name: str) -> str:
    """Return the file name, without an ending, that stands for a name: no path, not hidden, of at most 96 characters.

    A plain name (a-z, 0-9, _, . and -) is its own file name. Any other becomes its usual characters, `~`, which no
    plain name has, and the digest of the name. So two names never share a file, even where capitals do not count.
    """
    if _PLAIN.fullmatch(name) and name.partition(".")[0] not in _DEVICES:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{_UNUSUAL.sub('_', name[:_KEPT]).lstrip('-')}~{digest}"


def write_file(file: Path, content: str | bytes) -> None:
    """Write a file, and create its folder. Nothing is left of a file that cannot be written.

    Raises:
        OSError: names the file.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        with suppress(OSError):
            if file.is_file():
                file.unlink()
        raise OSError(error.errno, error.strerror, str(error.filename or file)) from error
