"""The advice from the results: the first table of the page."""

from collections.abc import Iterator, Mapping, Sequence

from research.mechanisms.choice import Verdict, ranked, verdict
from research.mechanisms.line import UNIFORM
from research.mechanisms.lines import of_task
from research.mechanisms.summary import Row, Standings
from research.replication.figures import percent

MOST = 3  # mechanisms that are named where several are as good
HEAD = "| to do this | pick | right | plain average | weight on the right place | longer texts |"


def advice(found: Sequence[Standings]) -> Iterator[str]:
    """A row for each task: what to pick, and how that does."""
    yield f"{HEAD}\n|---|---|---:|---:|---:|---:|\n"
    by_task = {each.task.name: each for each in found}
    for each in found:
        cells = [f"{each.task.title} (`{each.task.name}`)", pick(each, by_task), *figures(each, picked(each, by_task))]
        yield f"| {' | '.join(cells)} |\n"


def picked(found: Standings, by_task: Mapping[str, Standings]) -> Row | None:
    """The row that is advised: a mechanism, the plain average, or none."""
    match verdict(found):
        case Verdict.MECHANISM:
            return ranked(found, by_task)[0]
        case Verdict.AVERAGE:
            return found.row(UNIFORM)
        case Verdict.NOTHING:
            return None


def pick(found: Standings, by_task: Mapping[str, Standings]) -> str:
    """The advice for a task, in words."""
    best = f"{found.best.name}, {percent(found.best.accuracy)}"
    match verdict(found):
        case Verdict.MECHANISM:
            first, *equal = (row.name for row in ranked(found, by_task))
            names = "; ".join([f"**{first}**", *equal[: MOST - 1]])
            others = len(equal) - MOST + 1
            said = f"{names}; {others} more as good" if others > 0 else names
        case Verdict.AVERAGE:
            said = f"an average: no mechanism was shown to be better (most right: {best})"
        case Verdict.NOTHING:
            said = f"no advice: no mechanism learned it from {found.task.training:,} examples (most right: {best})"
    there, lines = len(found.rows), len(list(of_task(found.task.name)))
    return said + (f" (of {there} of {lines} lines so far)" if there < lines else "")


def figures(found: Standings, row: Row | None) -> list[str]:
    """Figures of the advice: right answers beside the average's, weight on the right place, longer texts."""
    known = {} if row is None else row.figures
    right, average = (None if each is None else each.accuracy for each in (row, found.row(UNIFORM)))
    shares = (right, average, known.get("share", known.get("facts")), known.get("longer"))
    return ["–" if share is None else percent(share) for share in shares]
