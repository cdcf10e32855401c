"""Rows of the catalogue as `rows/*.toml` have them, and the papers of `papers/*.bib`."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
STATES = ("works", "half", "import", "missing")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row: what no code says of it. A mechanism's or a model's equation, facets and files come from its code.

    surveys: where they have it. also: other names it has there. about: the idea, and what it is not good for.
    equation: in plain characters, where no docstring has it. facets: as `Taxonomy.of` reads them, where no card says
    them. papers: keys of `papers/*.bib`, its own first. reference: the independent implementation that tests hold it
    against, with its version; empty where the reference is an oracle written from the paper, or nothing. imports:
    `model_type`s of checkpoints that have it. state: of `STATES`; empty for one that its code proves to work. lacks:
    what of it is not here, for one that is not all here. unchecked: the equation, or a part of it, is from memory of
    the paper: neither its text nor a published implementation was at hand to hold it against.
    """

    id: str
    name: str
    surveys: str = ""
    also: tuple[str, ...] = ()
    about: str = ""
    equation: str = ""
    facets: str = ""
    papers: tuple[str, ...] = ()
    reference: str = ""
    imports: tuple[str, ...] = ()
    state: str = ""
    lacks: str = ""
    unchecked: bool = False


@dataclass(frozen=True)
class Paper:
    """An entry of `papers/*.bib`: its key, its fields, and the entry as it stands."""

    key: str
    fields: Mapping[str, str]
    bibtex: str

    @property
    def address(self) -> str:
        """Where it is read: its DOI's address, or the `url` of one that has none."""
        doi = self.fields.get("doi")
        return f"https://doi.org/{doi}" if doi else self.fields.get("url", "")


@cache
def rows() -> Mapping[str, Row]:
    """Every row by its id, in the catalogue's order: sections A to T, numbers rising.

    Raises: TypeError where a file has a field that no row has.
    """
    found = {}
    for file in sorted((FOLDER / "rows").glob("*.toml")):
        for key, fields in tomllib.loads(file.read_text(encoding="utf-8")).items():
            found[key] = Row(id=key, **{n: tuple(v) if isinstance(v, list) else v for n, v in fields.items()})
    return found


@cache
def papers() -> Mapping[str, Paper]:
    """Every paper by its key. An entry of a file begins at a line's start, each field has a line, `}` ends it.

    Of two entries of one paper the first stands. Raises: ValueError where two papers have one key.
    """
    text = "".join(file.read_text(encoding="utf-8") for file in sorted((FOLDER / "papers").glob("*.bib")))
    found: dict[str, Paper] = {}
    for entry in re.finditer(r"^@\w+\{(\S+),\n(.*?)^\}$", text, re.MULTILINE | re.DOTALL):
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry[2], re.MULTILINE))
        paper = Paper(entry[1], fields, entry[0])
        if letters(found.setdefault(paper.key, paper).fields["title"]) != letters(fields["title"]):
            raise ValueError(f"two papers have the key {paper.key}")
    return found


def letters(title: str) -> str:
    """A title, without capitals, braces and signs: it is spelled in several ways."""
    return re.sub(r"[^a-z0-9]", "", title.lower())


def linked(key: str) -> str:
    """Authors and year of a paper, with a link to it."""
    paper = papers()[key]
    last = [each.partition(",")[0] for each in paper.fields["author"].split(" and ")]
    named = (
        f"{last[0] if len(last) > 2 else ' and '.join(last)}{' et al.' if len(last) > 2 else ''} {paper.fields['year']}"
    )
    return f"[{named}]({paper.address})" if paper.address else named
