"""The tables of docs/results.md and docs/records/results.md: every number comes from the record."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from limelight_models.index import CONTROLS, ZOO
from research.mechanisms.statistics import Prior
from research.replication.differences import Difference
from research.replication.figures import Record, data_of
from research.replication.judging import EQUAL, OPPOSITE, SHOWN, worst
from research.replication.papers import Compared, compared, of_control
from research.replication.runs import PAGES
from research.replication.tables import percent, with_tables, written

PAGE, RECORDS = PAGES / "results.md", PAGES / "records" / "results.md"


def pages(record: Record) -> Mapping[Path, str]:
    """Write both pages anew: their texts stand there, their tables are the record's."""
    judged = sorted(compared(record), key=_row)
    own, of = lines(judged), judged[0].prior
    tables: dict[Path, dict[str, Sequence[str]]] = {
        PAGE: {"summary": summary(judged), "verdicts": verdicts([each for each in own if _several(each)])},
        RECORDS: {
            "once": verdicts([each for each in own if not _several(each)]),
            "claims": comparisons(judged),
            "controls": unneeded(record, of),
            "beams": beams(record),
        },
    }
    return {page: with_tables(page.read_text(encoding="utf-8"), found) for page, found in tables.items()}


def _row(each: Compared) -> tuple[str, int]:
    """A row of the catalogue in the order of rows."""
    return each.claim.model[0], int(each.claim.model[1:])


def title(model: str) -> str:
    """Write the name by which a model is trained."""
    return f"`{model}`"


def lines(judged: Sequence[Compared]) -> list[Compared]:
    """Those of a claim of a paper on a set of data; of one seed only where the claim is not judged over several."""
    found = [each for each in judged if each.least and not each.claim.own and not each.aside]
    several = {each.claim for each in found if _several(each)}
    return [each for each in found if each.claim not in several or _several(each)]


def _several(each: Compared) -> bool:
    """Whether a claim is judged over several seeds."""
    return each.least is not None and each.least.seeds > 1


def verdicts(judged: Sequence[Compared]) -> list[str]:
    """A line for each claim of a paper on each set of data."""
    heads = ("id", "paper", "claim", "data", "figure", "seeds", "difference (95 %)", "needs learned attention")
    rows = [
        (
            *(each.claim.model, each.claim.paper, each.claim.says),
            *_on(each.least),
            *((str(each.least.seeds), each.least.written(each.prior)) if each.least else ("", "")),
            *(each.learned, _parameters(each), each.verdict),
        )
        for each in judged
    ]
    return written((*heads, "parameters", "verdict"), rows)


def _on(found: Difference | None) -> tuple[str, str]:
    """The data, whether they were made here, whether a model was still learning; and the figure."""
    if found is None:
        return "", ""
    return f"{found.data} ({'made' if found.made else 'real'}){' †' if found.learning else ''}", found.figure


def _parameters(each: Compared) -> str:
    """The model's, and those of the one below that differs most."""
    most = max(each.found.values(), key=lambda found: abs(math.log(found.times)), default=None)
    if most is None or 1 / EQUAL < most.times < EQUAL:
        return "equal" if most else ""
    ours, theirs = most.parameters
    return f"{ours / 1000:,.0f}k : {theirs / 1000:,.0f}k"


def summary(judged: Sequence[Compared]) -> list[str]:
    """What the lines come to, and what they were judged with."""
    own = lines(judged)
    several, once = [each for each in own if _several(each)], [each for each in own if not _several(each)]
    waiting = [each.claim.model for each in judged if not each.least and not each.claim.own]
    named = {
        word: ", ".join(
            f"{each.claim.model} on {each.least.data}" for each in own if each.verdict == word and each.least
        )
        for word in (SHOWN, OPPOSITE)
    }
    of = own[0].prior
    bold = "; ".join(f"{word.strip('*')}: {each or 'nothing'}" for word, each in named.items())
    return [
        f"\n{len(several)} lines over several seeds: {_counted(several)}. In bold, {bold}.\n",
        f"{len(once)} [claims of one seed](records/results.md#claims-of-one-seed): {_counted(once)}.\n",
        f"The prior of the seeds' variance has {of.freedom:.1f} degrees of freedom around {of.variance:.1f} points².\n",
        f"No line yet, as no run is recorded, for {len(waiting)} claims of {', '.join(dict.fromkeys(waiting))}.\n"
        if waiting
        else "",
    ]


def _counted(judged: Sequence[Compared]) -> str:
    """How often each verdict is given, the most frequent first."""
    counts = Counter(re.sub(", (with|a control|over) .*", " with a reservation", each.verdict) for each in judged)
    return "; ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def comparisons(judged: Sequence[Compared]) -> list[str]:
    """A row for each claim, each model that it puts below, and each set of data."""
    heads = ("id", "claim", "on", "figure", "beside", "here", "there", "difference (95 %)", "seeds", "examples")
    rows: list[tuple[str, ...]] = []
    for each in judged:
        says = f"{each.claim.says} (ours)" if each.claim.own else f"{each.claim.paper}: {each.claim.says}"
        for other in each.claim.above:
            found = each.found.get(other)
            cells = (*found.cells(each.prior), found.examples) if found else ("",) * 5
            rows.append((each.claim.model, says, *_on(found), title(other), *cells, each.verdict))
    return written((*heads, "claim's verdict"), rows)


def unneeded(record: Record, of: Prior) -> list[str]:
    """Write a row for each model, set of data and control that the model was not shown to be better than."""
    heads = ("control", "on", "figure", "model's", "control's", "difference (95 %)", "seeds")
    rows = [
        (title(f"{base}-{control}"), each.data, each.figure, *each.cells(of))
        for base in ZOO
        for control in CONTROLS
        for each in of_control(record, base, control)
        if worst(each, of) <= 0
    ]
    return written(heads, rows)


def beams(record: Record) -> list[str]:
    """Write figures of beam search, asked for through a server."""
    heads = ("data", "model", "beams", "BLEU", "exact", "seconds for all")
    rows = [
        (
            *(data_of(run), title(run["model"]), str(each["beams"])),
            *(f"{each['bleu']:.1f}", percent(each["exact match"]), f"{each['seconds']:.1f}"),
        )
        for run in record.values()
        for each in run.get("beams", ())
    ]
    return written(heads, rows)
