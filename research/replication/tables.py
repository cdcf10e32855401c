"""Tables of Markdown, their cells, and their places on pages that are written by hand."""

import re
from collections.abc import Iterable, Sequence


def written(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int | None = None) -> list[str]:
    """Write a table, line by line, an empty one before it. words: columns at the left; the others are numbers."""
    lines = [f"| {' | '.join(cells)} |\n" for cells in (heads, *rows)]
    left = len(heads) if words is None else words
    return ["\n", lines[0], "|" + "---|" * left + "---:|" * (len(heads) - left) + "\n", *lines[1:]]


def percent(value: float) -> str:
    """Write a share as a percentage."""
    return f"{100 * value:.1f} %"


def with_tables(page: str, tables: dict[str, Sequence[str]]) -> str:
    """Put tables between the marks `<!-- NAME -->` and `<!-- end of NAME -->` of a page.

    Raises: ValueError where the page does not have such marks once.
    """
    for name, lines in tables.items():
        mark = re.compile(rf"(?<=<!-- {re.escape(name)} -->\n).*?(?=<!-- end of {re.escape(name)} -->)", re.DOTALL)
        page, count = mark.subn(lambda _, lines=lines: "".join(lines) + "\n", page)
        if count != 1:
            raise ValueError(f"the page has {count} places for {name}")
    return page
