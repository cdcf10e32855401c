"""The atlas's index, its data, and its bibliography."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pages.atlas.rows import STATES, papers
from pages.table_3 import COLUMNS
from research.replication.tables import written

HEAD = """# The atlas of attention

Written by `make docs` from the code, the records of measurements and `tools/pages/atlas`. Do not edit.

Every mechanism and model that four surveys name, here or missing, a page each: formula, the surveys' names for it, its
facets, a map from a served sample, code, what it is held against, what was measured, papers.

"""
DATA = """
[All of it as JSON](../atlas.json) ([its schema](../atlas.schema.json)); [every paper as BibTeX](papers.bib).
"""
FILTER = """
<div id="atlas-filter"></div>

"""
SCRIPT = '\n<script src="filter.js"></script>\n'
SCHEMA = "atlas.schema.json"
TEXT, TEXTS = {"type": "string"}, {"type": "array", "items": {"type": "string"}}


def index(entries: Sequence[Mapping[str, Any]]) -> str:
    """The page with a table of all rows, which a script filters where it runs."""
    counts = Counter(each["state"] for each in entries)
    counted = ", ".join(f"{counts[state]} {SAID[state]}" for state in STATES)
    heads = ("id", "name", "state", *COLUMNS)
    rows = [
        (
            f"[{each['id']}]({each['id']}.md)",
            each["name"].replace("|", r"\\|"),
            each["state"],
            *(", ".join(each["facets"][column]) or "–" for column in COLUMNS),
        )
        for each in entries
    ]
    table = "".join(written(heads, rows))
    return f"{HEAD}**{len(entries)} rows: {counted}.**\n{DATA}{FILTER}{table}{SCRIPT}"


SAID = {"works": "work", "half": "half", "import": "by import alone", "missing": "missing"}


def data(entries: Sequence[Mapping[str, Any]]) -> str:
    """docs/atlas.json."""
    return json.dumps({"$schema": SCHEMA, "rows": entries}, ensure_ascii=False, indent=1) + "\n"


def bibliography() -> str:
    """Every paper, as BibTeX."""
    return "\n\n".join(each.bibtex for _, each in sorted(papers().items())) + "\n"


def _record(required: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required},
        "required": [*required],
        "additionalProperties": False,
        **more,
    }


def schema() -> str:
    """docs/atlas.schema.json."""
    figure = {"type": "number"}
    row = _record(
        {
            "id": {"type": "string", "pattern": "^[A-Z][0-9]+$"},
            "name": TEXT,
            "section": TEXT,
            "state": {"enum": list(STATES)},
            "lacks": {**TEXT, "description": "what of it is not here"},
            "imports": {**TEXTS, "description": "model_type of checkpoints that come with its maps"},
            "about": TEXT,
            "surveys": {**TEXT, "description": "where they have it: BF, G, C, S are papers.bib's four surveys"},
            "also": {**TEXTS, "description": "other names"},
            "formulas": {
                "type": "array",
                "items": _record(
                    {
                        "of": TEXTS,
                        "plain": TEXT,
                        "tex": TEXTS,
                        "checked": {"type": "boolean", "description": "whether it was held against paper or code"},
                    }
                ),
            },
            "facets": _record(dict.fromkeys(COLUMNS, TEXTS), description="the columns of BF Table 3"),
            "files": {"type": "array", "items": _record({"path": TEXT, "holds": TEXT})},
            "train": {**TEXTS, "description": "words of the command that trains it"},
            "serves": {**TEXT, "description": "name of the model that shows it"},
            "reference": {**TEXT, "description": "an independent implementation that tests hold it against"},
            "oracles": {**TEXTS, "description": "files of oracles written from the paper"},
            "measured": {
                "type": "array",
                "maxItems": 2,
                "description": "the task on which it is most ahead of equal weights, and that on which it is least",
                "items": _record(
                    {
                        "of": TEXT,
                        "task": TEXT,
                        "name": TEXT,
                        "figure": figure,
                        "average": {**figure, "description": "of the same model with equal weights"},
                        "more": {"type": "boolean", "description": "whether more is better"},
                        "seeds": {"type": "integer"},
                        "where": TEXT,
                    }
                ),
            },
            "cost": {"type": "array", "items": _record({"of": TEXT, "512": TEXT, "2048": TEXT})},
            "claims": {
                "type": "array",
                "description": "what its papers claim, and the verdict on each set of data, as results.md has it",
                "items": _record(dict.fromkeys(("paper", "says", "data", "difference", "verdict"), TEXT)),
            },
            "papers": {
                "type": "array",
                "items": _record(dict.fromkeys(("key", "authors", "year", "title", "doi", "address"), TEXT)),
            },
            "page": TEXT,
            "map": TEXT,
        }
    )
    whole = _record({"$schema": {"const": SCHEMA}, "rows": {"type": "array", "items": row}})
    draft = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps({"$schema": draft, "title": "The atlas of attention", **whole}, indent=1) + "\n"
