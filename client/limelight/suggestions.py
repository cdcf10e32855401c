"""Names that were probably meant in place of unknown ones."""

from collections.abc import Iterable
from difflib import get_close_matches


def similar(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'maps'?` for the most similar of the known names, or nothing."""
    found = get_close_matches(name, list(known), n=1)
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
