"""Tables of words: every column to the left."""

from collections.abc import Iterable, Sequence


def written(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table, line by line, an empty one before it."""
    lines = [f"| {' | '.join(cells)} |\n" for cells in (heads, *rows)]
    return ["\n", lines[0], "|" + "---|" * len(heads) + "\n", *lines[1:]]
