"""Paragraphs and lists of the page."""

from collections.abc import Sequence
from textwrap import fill


def wrapped(text: str) -> str:
    """A paragraph in lines."""
    return fill(text, width=118, break_on_hyphens=False)


def item(text: str) -> str:
    """An entry of a list in lines."""
    return fill(f"- {text}", width=118, break_on_hyphens=False, subsequent_indent="  ") + "\n"


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
