"""The atlas's rows: each is whole and cited, and says of the code what the code says."""

import re
from collections import Counter

import pytest

from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from limelight_models.cards.taxonomy import Taxonomy
from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.index import ZOO
from pages.atlas.rows import FOLDER, STATES, Row, papers, rows

DOCS = FOLDER.parents[2] / "docs"
HERE = {mechanism.row for mechanism in MECHANISMS} | {entry.row for entry in ZOO.values()}
SURVEYS = ("brauwers2023general", "galassi2021attention", "chaudhari2021attentive", "soydaner2022attention")
UNATTENDED = "NO"  # sections that are no mechanisms and no models: they have no facets, and O no survey
each = pytest.mark.parametrize("row", rows().values(), ids=lambda row: row.id)


@each
def test_a_row_is_whole(row: Row) -> None:
    assert row.name and len(re.findall(r"[.!?](?=\s|$)", row.about)) >= 2, "a name, the idea, and its limits"
    assert row.surveys or row.papers or row.id[0] == "O"
    assert not row.surveys or re.match(r"(BF|G|C|S) ", row.surveys)
    assert len(set(row.papers)) == len(row.papers) and set(row.papers) <= papers().keys()
    for page in re.findall(r"\]\(\.\./([^)#]*)", row.about):
        assert (DOCS / page).is_file(), page


@each
def test_a_row_says_of_the_code_what_the_code_says(row: Row) -> None:
    assert row.state in STATES if row.state else row.id in HERE, "no code proves it to work"
    assert row.lacks or row.state != "half"
    assert row.imports or row.state != "import"
    assert set(row.imports) <= ARCHITECTURES.keys()
    if row.facets:
        Taxonomy.of(row.facets)
    else:
        assert row.id in HERE or row.id[0] in UNATTENDED, "no card says its facets"


def test_every_paper_is_cited_and_each_has_an_identifier_of_its_own() -> None:
    cited = {key for row in rows().values() for key in row.papers}
    assert papers().keys() - cited <= set(SURVEYS)
    identifiers = [paper.fields["doi"].casefold() for paper in papers().values() if "doi" in paper.fields]
    assert not [each for each, number in Counter(identifiers).items() if number > 1]
    assert all(re.fullmatch(r"10\.\d{4,9}/\S+", each) for each in identifiers)
    assert all({"title", "author", "year"} <= paper.fields.keys() for paper in papers().values())
