"""The page of what the surveys name: every mark says what is so."""

import pytest

from pages.atlas.rows import rows
from pages.coverage import PAGE
from pages.survey_tables import ABSENT, CHECKPOINTS, HALF, IMPORT, MISSING, ONLY, WORKS, Mark, Name, tables

MARKS = [(title, name.name, mark) for title, names in tables().items() for name in names for mark in name.marks]


@pytest.mark.parametrize(("title", "name", "mark"), MARKS)
def test_what_stands_for_a_name_is_as_it_says(title: str, name: str, mark: Mark) -> None:
    here = bool(mark.mechanisms or mark.models)
    if mark.kind == CHECKPOINTS:
        assert mark.row in (PAGE.parent / "import.md").read_text(encoding="utf-8")
        return
    row = rows()[mark.row]
    if mark.kind == ABSENT:
        assert not here or row.state == HALF, "the row is there"
    elif mark.kind == ONLY:
        assert here or row.state in (WORKS, HALF), "of a mechanism that is nowhere, nothing is here"
    else:
        assert here or row.state == WORKS, "nothing of it is here"


def test_no_name_stands_twice_at_one_place() -> None:
    for title, names in tables().items():
        assert len({each.name for each in names}) == len(names), title


@pytest.mark.parametrize(
    ("marks", "state"),
    [
        ("", MISSING),
        ("B1", WORKS),
        ("~B1", HALF),
        ("-K2", MISSING),
        ("B18 -P16", HALF),
        ("hf:BERT -R23", IMPORT),
        ("K22/lxmert", WORKS),
        ("~B1 hf:BERT", IMPORT),
    ],
)
def test_a_name_is_as_good_as_the_best_of_its_marks(marks: str, state: str) -> None:
    assert Name("", tuple(map(Mark.of, marks.split()))).state == state
