"""What of the atlas the client has: client/limelight/view/page/atlas.js, by which its page names the row of a model."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.records import ROOT
from limelight_export.importing.huggingface.architectures import ARCHITECTURES
from pages.atlas.facts import mechanisms, models
from pages.atlas.page import authors
from pages.atlas.rows import letters
from tests.kit import small

FILE = ROOT / "client" / "limelight" / "view" / "page" / "atlas.js"


def packed(entries: Sequence[Mapping[str, Any]]) -> str:
    """Write the module: TITLES, rows by what descriptions say, and ROWS: name, formulas, papers with their addresses.

    A description says the title of its paper, in small letters alone, or the name of its mechanism, behind a space.
    """
    titles: dict[str, str] = {}
    for row in (each["id"] for each in entries):
        for name in models(row):
            titles.setdefault(letters(small.card(name).description.citation.title), row)
        titles |= {f" {each.name}": row for each in mechanisms(row) if each.served}
    for model_type in sorted({each for found in entries for each in found["imports"]}):
        title = letters(ARCHITECTURES[model_type].citation.title)
        rows_of = [each for each in entries if model_type in each["imports"]]
        titles.setdefault(title, min(rows_of, key=partial(_distance, title))["id"])
    known = {*titles.values()}
    rows = {each["id"]: _row(each) for each in entries if each["id"] in known}
    head = "// The rows of the atlas that a model may be. Written by `make docs`: do not edit.\n"
    return "".join([head, *_constant("TITLES", titles), *_constant("ROWS", rows)])


def _distance(title: str, found: Mapping[str, Any]) -> tuple[bool, bool, int]:
    """How far a row is from a checkpoint: it cites the paper, is a model, has few kinds of checkpoints."""
    cited = any(letters(each["title"]) == title for each in found["papers"])
    return not cited, found["id"] < "J", len(found["imports"])


def _constant(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    yield f"\nexport const {name} = {{\n"
    yield from (f"  {_json(key)}: {_json(value)},\n" for key, value in table.items())
    yield "};\n"


def _row(found: Mapping[str, Any]) -> list[Any]:
    papers = [
        [f"{authors(each['authors'])} ({each['year']}): {each['title']}", each["address"]] for each in found["papers"]
    ]
    return [f"{found['id']} {found['name']}", [each["plain"] for each in found["formulas"]], papers]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
