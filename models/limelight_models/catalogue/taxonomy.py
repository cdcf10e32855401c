"""The page `docs/taxonomy.md`: every catalogue row, what implements it, and the evidence that it works."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.rows import ROWS, Row

HEADER = """# The taxonomy, row by row

Written by `make docs` from the registry and from what tests proved when they last passed. Do not edit.

A mark ✓ says that tests passed for each mechanism of the row, and that the class named here took part in them: its
outputs equal an oracle's in `tests/oracles`, written from the paper (**oracle**); its exported graph gives what PyTorch
gives at sizes that were not exported (**exported**); and a server answers with its weights over a socket what PyTorch
answers (**served**). A row is **train-only** where all of it acts in training alone, so that nothing of it is in a
graph (–). Where a served form stands for another idea than the paper's, it says so after the class.

Rows A to I are here. Published models, which are rows J and later, are on [a page of their own](models.md).

| row | name | where | mechanisms | equations | oracle | exported | served | done |
|---|---|---|---|---|---|---|---|---|
"""
YES, NO, NOT_MEANT, TRAIN_ONLY = "✓", "·", "–", "train-only"
KINDS = ("oracle", "exported", "served")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Names of the mechanisms for which each kind of evidence exists."""

    oracle: Collection[str]
    exported: Collection[str]
    served: Collection[str]


def page(mechanisms: Sequence[Mechanism], evidence: Evidence) -> str:
    """The whole page."""
    return HEADER + "".join(line(row, [m for m in mechanisms if m.row == row.id], evidence) + "\n" for row in ROWS)


def line(row: Row, found: Sequence[Mechanism], evidence: Evidence) -> str:
    """One table row."""
    marks = [
        mark(found, evidence.oracle),
        mark(found, evidence.exported, served_only=True),
        mark(found, evidence.served, served_only=True),
    ]
    cells = [
        row.id,
        row.name,
        row.source,
        ", ".join(named(m) for m in found) or "none",
        "; ".join(dict.fromkeys(m.equation for m in found)),
        *marks,
        NO if NO in marks else TRAIN_ONLY if NOT_MEANT in marks else YES,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def named(mechanism: Mechanism) -> str:
    """A mechanism with its class, and what its served form stands for where that is not the paper's own."""
    called = f"{mechanism.name} (`{mechanism.module.__name__}`)"
    return f"{called}; served: {mechanism.note}" if mechanism.note else called


def mark(found: Sequence[Mechanism], names: Collection[str], *, served_only: bool = False) -> str:
    """Whether all mechanisms of a row are among the names."""
    meant = [m for m in found if m.served] if served_only else list(found)
    if not found:
        return NO
    if not meant:
        return NOT_MEANT
    return YES if all(m.name in names for m in meant) else NO
