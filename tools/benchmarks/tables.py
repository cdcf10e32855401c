"""Markdown tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table, its first column to the left and the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def number(value: float | None, form: str = ".0f") -> str:
    """Write a number; a dash for None and NaN."""
    return "–" if value is None or value != value else format(value, form)


def ratio(above: float | None, below: float | None) -> float | None:
    """Divide; None where either is missing or 0."""
    return above / below if above and below else None


def of_rows(rows: Sequence[Any]) -> list[str]:
    """Write dataclasses of one type as a table: a column a field."""
    names = [each.name for each in fields(rows[0])] if rows else []
    return table(names, ([cell(getattr(row, name)) for name in names] for row in rows)) if rows else []


def cell(value: object) -> str:
    """Write a value of any kind."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell(each)}" for name, each in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def fill(page: str, blocks: Mapping[str, Sequence[str]]) -> str:
    """Replace the lines between `<!-- NAME -->` and `<!-- end of NAME -->` of a page, for each block."""
    for name, lines in blocks.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        before, rest = page.split(begin)
        page = before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    return page
