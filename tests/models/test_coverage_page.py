"""The page of what the surveys name: every row that it names is there."""

import pytest

from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.index import ZOO
from pages.coverage import CHECKPOINTS, PAGE
from pages.survey_tables import CELLS

ROWS = [(table, name, row) for table, cells in CELLS.items() for name, rows in cells for row in rows]


@pytest.mark.parametrize(("table", "name", "row"), ROWS)
def test_a_row_that_is_named_is_there(table: str, name: str, row: str) -> None:
    if row.startswith(CHECKPOINTS):
        assert f"{row.removeprefix(CHECKPOINTS)}" in (PAGE.parent / "import.md").read_text(encoding="utf-8")
        return
    key, _, word = row.partition("/")
    here = [each for each in MECHANISMS if each.row == key and word in each.name]
    assert here or any(entry.row == key for entry in ZOO.values()), (table, name)
