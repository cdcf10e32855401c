"""Cards stand where Table 3 of Brauwers and Frasincar (2021) has their papers, or the table here says why not."""

from collections.abc import Sequence

import pytest

from limelight.v1 import model_pb2
from models.zoo.index import ZOO, recipe, variants
from tests.models import small

COLUMNS = tuple(field.name for field in model_pb2.Taxonomy.DESCRIPTOR.fields)
# As the survey has it, but for its spelling; in the order of its columns. "+" is of parts that one model has together,
# "," of what one paper tries one by one.
TABLE = """
J1 | Bahdanau | singular | single-level | single-representational | additive | global | single-dimensional | basic | singular
J2 | Luong | singular | single-level | single-representational | multiplicative, location | global, local | single-dimensional | basic | singular
J3 | Xu | singular | single-level | single-representational | additive | soft, hard | single-dimensional | basic | singular
J4 | Lu | parallel co-attention | hierarchical | single-representational | additive | global | single-dimensional | specialized | singular
J5 | Yang | singular | hierarchical | single-representational | additive | global | single-dimensional | self-attentive | singular
J6 | Li | singular | hierarchical | single-representational | additive | global | single-dimensional | self-attentive | singular
J7 | Vaswani | singular | single-level | single-representational | scaled-multiplicative | global | single-dimensional | self-attentive + basic | multi-head + multi-hop
J8 | Wallaart | rotatory | single-level | single-representational | activated general | global | single-dimensional | specialized | multi-hop
J9 | Kiela | singular | single-level | multi-representational | additive | global | single-dimensional | self-attentive | singular
J10 | Shen | singular | single-level | single-representational | additive | global | multi-dimensional | self-attentive | singular
J11 | Zhang | singular | single-level | single-representational | multiplicative | global | single-dimensional | self-attentive | singular
J12 | Li | parallel co-attention | single-level | single-representational | scaled-multiplicative | global | single-dimensional | self-attentive + specialized | singular
J13 | Yu | parallel co-attention | single-level | single-representational | multiplicative | global | single-dimensional | self-attentive + specialized | multi-head
J14 | Wang | parallel co-attention | single-level | single-representational | additive | reinforced | single-dimensional | specialized | singular
J15 | Oktay | singular | single-level | single-representational | additive | global | multi-dimensional | self-attentive + specialized | singular
J16 | Winata | singular | single-level | multi-representational | additive | global | single-dimensional | self-attentive | multi-head
J17 | Wang | singular | single-level | single-representational | multiplicative | global | single-dimensional | self-attentive | capsule-based
"""  # noqa: E501
SPELLED = {
    "specialized": "specialised",
    "scaled-multiplicative": "scaled multiplicative",
    "location": "location-based",
    "capsule-based": "capsule",
    "soft": "global",  # the survey's other word for it
}
ABSENT = {"J13": "QANet is not among the models yet"}
# Where a card departs on purpose: what the model itself says in a column, and why.
DEPARTS = {
    ("luong", "scoring"): (("general",), "the paper's best score, which Table 2 lists beside the multiplicative one"),
    ("attention-unet", "dimensionality"): (
        ("single-dimensional",),
        "one coefficient for all features of a cell, the paper's choice for one class of objects (§2.1)",
    ),
}
ROWS = {row: dict(zip(COLUMNS, cells, strict=True)) for row, _, *cells in (
    map(str.strip, line.split("|")) for line in TABLE.strip().splitlines()
)}  # fmt: skip
AUTHORS = {line.split("|")[0].strip(): line.split("|")[1].strip() for line in TABLE.strip().splitlines()}


def names(cell: str) -> list[str]:
    """The names in a cell of the table, as cards spell them."""
    return [SPELLED.get(each, each) for each in cell.replace("+", ",").replace(", ", ",").replace(" ,", ",").split(",")]


def said(name: str, column: str) -> list[str]:
    """The names in a column of a model's card."""
    return list(getattr(small.card(name).description.taxonomy, column))


def tried(model: str, column: str) -> set[str]:
    """Those of a model and of its variants."""
    return {each for name in (model, *variants(model)) for each in said(name, column)}


def test_the_table_has_every_row_but_those_that_are_named() -> None:
    there = {entry.row for entry in ZOO.values()}
    assert {row for row in ROWS if row not in there} == set(ABSENT)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("model", [name for name, entry in ZOO.items() if entry.row in ROWS])
def test_a_card_stands_where_the_survey_has_its_paper(model: str, column: str) -> None:
    cell = ROWS[ZOO[model].row][column]
    wanted, own = names(cell), said(model, column)
    if (model, column) in DEPARTS:
        expected, why = DEPARTS[model, column]
        assert own == list(expected) != wanted and why
    elif "," in cell:  # the model is one of those that the paper tries
        assert set(own) <= set(wanted)
    else:
        assert own == wanted
    assert set(wanted) <= tried(model, column) | set(own), "some variant is each of what the paper tries"


@pytest.mark.parametrize("model", [name for name, entry in ZOO.items() if entry.row in ROWS])
def test_a_row_is_of_the_models_paper(model: str) -> None:
    authors: Sequence[str] = small.card(model).description.citation.authors
    assert authors[0] == AUTHORS[ZOO[model].row] and recipe(model)
