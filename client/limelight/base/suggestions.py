"""Names that were probably meant in place of unknown ones."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

# A comparison takes up to 40 µs, and callers of a server decide how often it is made.
_MOST, _LONGEST = 100, 64
_CLOSE = 0.7


def similar(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'maps'?` for the most similar of the first 100 known names, or nothing."""
    if len(name) > _LONGEST:
        return ""
    found = get_close_matches(name, islice(known, _MOST), n=1, cutoff=_CLOSE)
    return f"; did you mean {found[0]!r}?" if found else ""


def check_keywords(given: Iterable[str], known: Iterable[str], what: str) -> None:
    """Refuse unknown keyword arguments.

    Args:
        what: the function, for the error.
    Raises:
        TypeError: names the first unknown one and the most similar known one.
    """
    names = set(known)
    for name in given:
        if name not in names:
            raise TypeError(f"{what} has no option {name!r}{similar(name, sorted(names))}")
