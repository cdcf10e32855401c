"""The page docs/coverage.md: the surveys' tables, and what stands here."""

from benchmarks.records import ROOT
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.index import ZOO
from pages.models import file_of, standing_for
from pages.survey_tables import CELLS
from research.replication.tables import written

PAGE = ROOT / "docs" / "coverage.md"
HEAD = """# What the surveys name, and what is here

Written by `make docs` from the registry and the list of models. Do not edit.

Each table of the surveys that lists mechanisms, papers or tasks, cell by cell. A row that begins with A to I is a
mechanism of [the taxonomy](taxonomy.md); J and later are [published models](models.md) with [their
results](results.md); *checkpoints* are kinds of Hugging Face models that [the import](import.md) reads.
**–** is a gap: nothing here stands for the cell. The table of seventeen papers is [on the page of
models](models.md#the-surveys-table).

"""
CHECKPOINTS = "hf:"


def page() -> str:
    """The whole page."""
    cells = [rows for of_table in CELLS.values() for _, rows in of_table]
    parts = [HEAD, f"{sum(map(bool, cells))} of {len(cells)} cells have a row.\n"]
    for table, of_table in CELLS.items():
        parts += [f"\n## {table}\n", *written(("in the survey", "row", "here"), [shown(*each) for each in of_table])]
    return "".join(parts)


def shown(name: str, rows: tuple[str, ...]) -> tuple[str, str, str]:
    """A cell: its name, its rows, and what they are, with their files."""
    if not rows:
        return name, "**–**", ""
    ids = [each.partition("/")[0] for each in rows if not each.startswith(CHECKPOINTS)]
    return name, ", ".join(ids), "; ".join(described(each) for each in rows)


def described(row: str) -> str:
    """Name of a row, with a link to its file."""
    if row.startswith(CHECKPOINTS):
        return f"[checkpoints of {row.removeprefix(CHECKPOINTS)}](import.md)"
    row, _, word = row.partition("/")
    if found := [each for each in MECHANISMS if each.row == row and word in each.name]:
        return ", ".join(_link(each.name, each.module.__module__) for each in found)
    name = standing_for(row)
    return _link(f"`{name}`", f"limelight_models.zoo.{ZOO[name].module}")


def _link(text: str, module: str) -> str:
    return f"[{text}](../{file_of(module)})"
