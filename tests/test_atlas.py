"""The atlas: every row has a page, formulas are typeset, the data keep to their schema."""

import json
import re
import tomllib
import zlib

import jsonschema
import pytest
import yaml
from latex2mathml.converter import convert

from limelight_models.catalogue.registry import MECHANISMS
from limelight_models.index import ZOO
from pages.atlas import packed, written
from pages.atlas.facts import SECTIONS
from pages.atlas.page import SURVEYS
from pages.atlas.rows import papers, rows
from pages.atlas.tex import Equation, equations

DOCS, FOLDER = written.DOCS, written.FOLDER
EQUATIONS = [*{each.equation: each.row for each in MECHANISMS}.items()]
EQUATIONS += [(row.equation, row.id) for row in rows().values() if row.equation]


def test_files_are_those_of_the_code_and_the_records() -> None:
    made = written.files()
    there = {*FOLDER.glob("*.md"), *FOLDER.glob("maps/*"), *FOLDER.glob("*.bib"), *DOCS.glob("atlas*.json")}
    assert there | {packed.FILE} == set(made)
    assert len(zlib.compress(made[packed.FILE].encode())) < 60_000
    differ = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
    assert not differ, "run make docs"
    assert sum(len(text.encode()) for text in made.values()) < 3_000_000
    assert all(len(text.encode()) <= 12_000 for path, text in made.items() if path.suffix == ".svg")


def test_every_row_has_a_page_with_a_formula_or_the_lack_of_one() -> None:
    for row in rows():
        page = (FOLDER / f"{row}.md").read_text(encoding="utf-8")
        shown = page.partition("## Formula\n")[2].partition("\n## ")[0]
        assert "$" in shown or "None is written down here." in shown or rows()[row].equation, row


def test_all_that_the_code_has_is_a_row_and_every_row_has_a_section() -> None:
    assert {each.row for each in MECHANISMS} | {entry.row for entry in ZOO.values() if entry.row} <= set(rows())
    assert {row[0] for row in rows()} == set(SECTIONS)
    for row in rows().values():
        assert {*row.papers} <= set(papers()), row.id


def test_the_data_keep_to_their_schema() -> None:
    schema = json.loads((DOCS / "atlas.schema.json").read_text(encoding="utf-8"))
    data = json.loads((DOCS / "atlas.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(data, schema)
    assert [each["id"] for each in data["rows"]] == list(rows())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "rows": [{**data["rows"][0], "state": "done"}]}, schema)


@pytest.mark.parametrize(("text", "row"), EQUATIONS, ids=[f"{row} {n}" for n, (_, row) in enumerate(EQUATIONS)])
def test_every_equation_is_typeset(text: str, row: str) -> None:
    lines = list(equations(text))
    assert any(each.tex or each.note for each in lines)
    for line in lines:
        for tex in filter(None, [line.tex, *re.findall(r"\$([^$]+)\$", line.note)]):
            plain = re.sub(r"<[^>]+>", "", convert(tex))
            assert "\\" not in plain and "$" not in tex and not re.search(r"[_^]", plain), (row, tex)


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("e = qᵀ k / √d_k", [Equation("", r"e = \frac{q^{\top} k}{\sqrt{d_{k}}}", "")]),
        ("δ = (A - 1) / (N - 1) · δ̃", [Equation("", r"\delta = \frac{A - 1}{N - 1} \cdot \tilde{\delta}", "")]),
        ("L = λ / M Σ_h z_h", [Equation("", r"L = \frac{\lambda}{M} \sum_{h} z_{h}", "")]),
        ("a_ij = W₁² x'_i / d^¼", [Equation("", r"a_{ij} = \frac{W_{1}^{2} x_{i}^{\prime}}{d^{1/4}}", "")]),
        (
            "soft: a = attention of q over F, with q the query;  c = 1",
            [
                Equation("soft", r"a = \text{attention of } q \text{ over } F", "with $q$ the query"),
                Equation("", "c = 1", ""),
            ],
        ),
        ("a = p(x ‖ y), [z]₊ ≤ ŷ", [Equation("", r"a = p(x \parallel y),\quad [z]_{+} \le \hat{y}", "")]),
    ],
)
def test_equations_by_hand(plain: str, expected: list[Equation]) -> None:
    assert list(equations(plain)) == expected


@pytest.mark.parametrize("wrong", ["a = (b", "a = b)", "a = ☃"])
def test_what_cannot_be_typeset_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"partner|missing|form"):
        list(equations(wrong))


def test_the_project_is_cited_with_its_version_and_its_surveys() -> None:
    cited = yaml.safe_load((DOCS.parent / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert cited["version"] == project["version"] and cited["cff-version"] == "1.2.0"
    dois = [papers()[key].fields["doi"] for key in SURVEYS.values()]
    assert [each["doi"] for each in cited["references"]] == dois
