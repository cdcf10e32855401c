"""The page `docs/taxonomy.md`: every catalogue row, what implements it, and the evidence that it works."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from models.catalogue.mechanism import Mechanism
from models.catalogue.rows import ROWS, Row

HEADER = """# The taxonomy, row by row

Written from the registry by `python -m tests.attention.evidence`; a test fails when it is stale. Do not edit.

A row is marked ✓ when each of its mechanisms is constructed, is held against an oracle in `tests/oracles`, is exported
to ONNX and compared, and is served in the end-to-end test. What is only there to train with (–) is not served.

| row | name | where | mechanisms | equations | constructed | oracle | exported | served | done |
|---|---|---|---|---|---|---|---|---|---|
"""
YES, NO, NOT_MEANT = "✓", "·", "–"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Names of the mechanisms for which each kind of evidence exists."""

    constructed: Collection[str]
    oracle: Collection[str]
    exported: Collection[str]
    served: Collection[str]


def page(mechanisms: Sequence[Mechanism], evidence: Evidence) -> str:
    """The whole page."""
    return HEADER + "".join(line(row, [m for m in mechanisms if m.row == row.id], evidence) + "\n" for row in ROWS)


def line(row: Row, found: Sequence[Mechanism], evidence: Evidence) -> str:
    """One table row."""
    marks = [
        mark(found, evidence.constructed),
        mark(found, evidence.oracle),
        mark(found, evidence.exported, served_only=True),
        mark(found, evidence.served, served_only=True),
    ]
    cells = [
        row.id,
        row.name,
        row.source,
        ", ".join(f"{m.name} (`{m.module.__name__}`)" for m in found) or "none",
        "; ".join(dict.fromkeys(m.equation for m in found)),
        *marks,
        NO if NO in marks else YES,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def mark(found: Sequence[Mechanism], names: Collection[str], *, served_only: bool = False) -> str:
    """Whether all mechanisms of a row are among the names."""
    meant = [m for m in found if m.served] if served_only else list(found)
    if not found:
        return NO
    if not meant:
        return NOT_MEANT
    return YES if all(m.name in names for m in meant) else NO
