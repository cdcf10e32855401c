"""The tables of docs/results.md and docs/records/results.md: every number comes from the record."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from limelight_models.index import CONTROLS, ZOO
from research.replication.differences import UNSHOWN, differences
from research.replication.figures import Record
from research.replication.papers import compared, papers, title, verdicts
from research.replication.runs import PAGES
from research.replication.tables import percent, with_tables, written

PAGE, RECORDS = PAGES / "results.md", PAGES / "records" / "results.md"


def pages(record: Record) -> Mapping[Path, str]:
    """Write both pages anew: their texts stand there, their tables are the record's."""
    comparisons = compared(record)
    tables: dict[Path, dict[str, Sequence[str]]] = {
        PAGE: {"verdicts": verdicts(comparisons)},
        RECORDS: {"claims": papers(comparisons, record), "controls": unneeded(record), "beams": beams(record)},
    }
    return {page: with_tables(page.read_text(encoding="utf-8"), found) for page, found in tables.items()}


def unneeded(record: Record) -> list[str]:
    """Write a row for each model, set of data and control that the model was not shown to be better than."""
    heads = ("control", "on", "figure", "model's", "control's", "difference (95 %)", "seeds")
    rows = [
        (title(f"{base}-{control}"), each.data, each.figure, *each.cells)
        for base in ZOO
        for control in CONTROLS
        for each in differences(record, base, f"{base}-{control}")
        if each.verdict() in UNSHOWN
    ]
    return written(heads, rows)


def beams(record: Record) -> list[str]:
    """Write figures of beam search, asked for through a server."""
    heads = ("data", "model", "beams", "BLEU", "exact", "seconds for all")
    rows = [
        (
            *(run["data"]["name"], title(run["model"]), str(each["beams"])),
            *(f"{each['bleu']:.1f}", percent(each["exact match"]), f"{each['seconds']:.1f}"),
        )
        for run in record.values()
        for each in run.get("beams", ())
    ]
    return written(heads, rows)
