"""File names for names that a server chose: of models, of maps."""

import hashlib
import re

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
