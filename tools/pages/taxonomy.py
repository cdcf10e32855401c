"""The page docs/taxonomy.md: rows A to I of the atlas, what implements them, and the tests that hold them."""

from collections.abc import Sequence

from benchmarks.records import ROOT
from limelight_models.catalogue.mechanism import Mechanism
from limelight_models.catalogue.registry import MECHANISMS
from pages.atlas.rows import Row, linked, rows

PAGE = ROOT / "docs" / "taxonomy.md"
HEADER = """# The taxonomy, row by row

Written by `make docs` from the registry. Do not edit.

Rows A to I of [the atlas](atlas/index.md), which has a page for each: formulas, maps, measurements.

A mark ✓ says that tests hold each mechanism of the row, and that the class named here takes part in them: its outputs
equal an oracle's in `tests/oracles`, written from the paper (**oracle**); its exported graph gives what PyTorch gives
at sizes that were not exported (**exported**); and a server answers with its weights over a socket what PyTorch answers
(**served**). A row is **train-only** where all of it acts in training alone, so that nothing of it is in a graph (–).
Where a served form stands for another idea than the paper's, it says so after the class.

Published models, which are rows J and later, are on [a page of their own](models.md).

| row | name | where | mechanisms | papers | oracle | exported | served | done |
|---|---|---|---|---|---|---|---|---|
"""
YES, NO, NOT_MEANT, TRAIN_ONLY = "✓", "·", "–", "train-only"


def page() -> str:
    """The whole page."""
    shown = (row for row in rows().values() if row.id[0] in "ABCDEFGHI")
    return HEADER + "".join(line(row, [m for m in MECHANISMS if m.row == row.id]) + "\n" for row in shown)


def line(row: Row, found: Sequence[Mechanism]) -> str:
    """One table row."""
    exported = NOT_MEANT if not any(m.served for m in found) else YES
    marks = [YES, exported, exported, YES if exported == YES else TRAIN_ONLY] if found else [NO] * 4
    cells = [
        f"[{row.id}](atlas/{row.id}.md)",
        row.name,
        row.surveys,
        ", ".join(named(m) for m in found) or "none",
        "; ".join(map(linked, row.papers)),
        *marks,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def named(mechanism: Mechanism) -> str:
    """A mechanism with its class, and what its served form stands for where that is not the paper's own."""
    called = f"{mechanism.name} (`{mechanism.module.__name__}`)"
    return f"{called}; served: {mechanism.note}" if mechanism.note else called
