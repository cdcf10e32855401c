"""Every file of the atlas, as it is written."""

from collections.abc import Mapping
from pathlib import Path

from benchmarks.records import ROOT
from pages.atlas import index, maps, packed, page
from pages.atlas.facts import entries, record

DOCS = ROOT / "docs"
FOLDER = DOCS / "atlas"


def files() -> Mapping[Path, str]:
    """Texts by their files: a page and a map a row, the index, the data and their schema, the bibliography, and
    what the client has of them.
    """
    found = entries()
    return {
        FOLDER / "index.md": index.index(found),
        FOLDER / "papers.bib": index.bibliography(),
        DOCS / "atlas.json": index.data(found),
        DOCS / index.SCHEMA: index.schema(),
        packed.FILE: packed.packed(found),
        **{FOLDER / f"{row}.md": text for row, text in page.pages(found).items()},
        **{FOLDER / "maps" / f"{row}.svg": maps.svg(sample) for row, sample in record().items()},
    }


def write() -> None:
    """Write them, and remove pages and maps of rows that are no more."""
    made = files()
    (FOLDER / "maps").mkdir(parents=True, exist_ok=True)
    for old in [*FOLDER.glob("*.md"), *FOLDER.glob("maps/*.svg")]:
        if old not in made:
            old.unlink()
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
