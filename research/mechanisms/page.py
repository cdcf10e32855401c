"""The table of advice in docs/mechanisms.md, and docs/records/mechanisms.md: the tables of every task."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

from research.mechanisms.choice import MOST, Verdict, ranked, verdict
from research.mechanisms.line import UNIFORM
from research.mechanisms.statistics import Effect
from research.mechanisms.summary import Row, Standings
from research.replication.tables import percent, written

Cell = Callable[[Row, Standings], str]  # empty where there is nothing to say

NAMED = 3  # mechanisms that are named where several are as good
FEW = 5  # mechanisms of which no correlation is taken
RIGHT = 0.9  # of all examples: a run that solved its task
HEAD = """# Mechanisms: the tables

[The study](../mechanisms.md) and [how to read the columns](mechanisms-method.md). Written by
`python -m research.mechanisms write` from `research/records/mechanisms.jsonl.xz`.

## What each task was given
"""


def picks(found: Sequence[Standings]) -> list[str]:
    """Write a row for each task: what to pick, and how that does beside the average."""
    by_task = {each.task.name: each for each in found}
    rows = []
    for each in found:
        row = picked(each, by_task)
        known = {} if row is None else row.figures
        right, average = (None if one is None else one.accuracy for one in (row, each.row(UNIFORM)))
        shares = (right, average, known.get("share", known.get("facts")), known.get("longer"))
        cells = ["–" if share is None else percent(share) for share in shares]
        rows.append([f"{each.task.title} (`{each.task.name}`)", pick(each, by_task), *cells])
    heads = ("to do this", "pick", "right", "plain average", "weight on the right place", "longer texts")
    return written(heads, rows, words=2)


def picked(found: Standings, by_task: Mapping[str, Standings]) -> Row | None:
    """Choose the row that is advised: a mechanism, the plain average, or none."""
    choices = {Verdict.MECHANISM: lambda: ranked(found, by_task)[0], Verdict.AVERAGE: lambda: found.row(UNIFORM)}
    return choices.get(verdict(found), lambda: None)()


def pick(found: Standings, by_task: Mapping[str, Standings]) -> str:
    """Write the advice for a task."""
    best = f"most right: {found.best.name}, {percent(found.best.accuracy)}"
    match verdict(found):
        case Verdict.MECHANISM:
            first, *equal = (row.name for row in ranked(found, by_task))
            others = len(equal) - NAMED + 1
            more = [f"{others} more as good"] if others > 0 else []
            return "; ".join([f"**{first}**", *equal[: NAMED - 1], *more])
        case Verdict.AVERAGE:
            return f"an average: no mechanism was shown to be better ({best})"
        case Verdict.NOTHING:
            return f"no advice: no mechanism learned it from {found.task.training:,} examples ({best})"


def tables(found: Sequence[Standings]) -> str:
    """Write the record of tables."""
    heads = ("task", "learned from", "steps × batch", "each seen", "rate at an edge", "stopped by the limit")
    heads += ("correlation", "elsewhere")
    given = written(heads, ([f"`{each.task.name}`", *terms(each)] for each in found), words=1)
    return "".join([HEAD, *given, *(part for each in found for part in section(each))])


def terms(found: Standings) -> Iterator[str]:
    """Give a task's cells: what it learned from, if rates and steps sufficed, if looks and answers agree."""
    task, runs = found.task, [run for row in found.rows for run in row.runs]
    seen = task.steps * task.batch / task.training
    edges = [edge for row in found.rows if (edge := edge_of(row)) is not None]
    lowest, highest = edges.count(-1), edges.count(1)
    yield f"{task.training:,}"
    yield f"{task.steps:,} × {task.batch}"
    yield f"{seen:.{0 if seen >= 10 else 1}f} times"
    yield f"{lowest + highest} of {len(edges)} ({lowest} lowest, {highest} highest)"
    yield f"{100 * sum(run['steps'] >= task.steps for run in runs) / len(runs):.0f} %"
    correlation = agreement(found)
    yield "–" if correlation is None else f"{correlation:.2f}"
    solved = [run for row in found.mechanisms for run in row.runs if run["accuracy"] >= RIGHT and "share" in run]
    yield f"{sum(run['share'] < MOST for run in solved)} of {len(solved)}" if solved else "–"


def edge_of(row: Row) -> int | None:
    """Compare the best rate with those tried: -1 the lowest, 1 the highest, 0 between; None without a trial."""
    for run in row.runs:
        if run["tried"]:
            tried = sorted(map(float, run["tried"]))
            return int(run["rate"] == tried[-1]) - int(run["rate"] == tried[0])
    return None


def agreement(found: Standings) -> float | None:
    """Correlate weight on the right place with right answers, by rank; None with few mechanisms, or no difference."""
    rows = [row for row in found.mechanisms if "share" in row.figures]
    shares, right = [row.figures["share"] for row in rows], [row.accuracy for row in rows]
    if len(rows) < FEW or np.ptp(shares) == 0 or np.ptp(right) == 0:
        return None
    return float(spearmanr(shares, right).statistic)


def section(found: Standings) -> Iterator[str]:
    """Write a task's table with what stands beside it."""
    task = found.task
    seeds = max(len(row.right) for row in found.rows)
    yield f"\n## {task.title}\n\n`{task.name}`: {len(found.rows)} lines, {seeds} of {task.seeds} seeds. "
    yield f"Smallest difference that could be found: {100 * found.smallest:.1f} points.\n"
    if not found.learned:
        yield "\nNothing learned this task: its figures compare failures, not mechanisms.\n"
    columns = [(name, cell) for name, cell in COLUMNS.items() if any(cell(row, found) for row in found.rows)]
    rows = (
        [named(row, task.plain), *(cell(row, found) or "–" for _, cell in columns)]
        for row in found.rows
        if not row.idle
    )
    yield from written(("mechanism", *(name for name, _ in columns)), rows, words=1)
    for row in found.rows:
        if row.idle:
            yield f"\n*{row.name}* is not compared: {row.line.check}: {100 * row.figures['acted']:.1f} %.\n"


def named(row: Row, plain: str) -> str:
    """Write a mechanism's name: controls in italics, the plain one bold."""
    if row.line.control:
        return f"*{row.name}*"
    return f"**{row.name}**" if row.name == plain else row.name


def right(row: Row, found: Standings) -> str:
    """Write the accuracy, with its deviation over seeds where there are more."""
    spread = f" ± {100 * row.deviation:.1f}" if len(row.right) > 1 else ""
    return f"{100 * row.accuracy:.1f}{spread}"


def solved(row: Row, found: Standings) -> str:
    """Count the seeds that solved the task; empty where an average is enough, or nothing was learned."""
    return f"{found.solved(row)} of {len(row.right)}" if verdict(found) is Verdict.MECHANISM else ""


def difference(of: tuple[Effect, float] | None) -> str:
    """Write a difference in points with its interval, starred where it stands after correction."""
    if of is None:
        return ""
    each, p = of
    star = "\\*" if p < 0.05 else ""
    return f"{100 * each.mean:+.1f}{star} ({100 * each.low:+.1f} to {100 * each.high:+.1f})"


def on_place(row: Row, found: Standings) -> str:
    """Write the weight on the right place, and what equal weights would have."""
    if "share" not in row.figures:
        return ""
    return f"{row.figures['share']:.2f} ({row.figures['even']:.2f})"


def of_figure(name: str, form: str, share: bool = False) -> Cell:
    """Make a cell of a figure that may be missing."""
    return lambda row, _: format(row.figures[name] * (100 if share else 1), form) if name in row.figures else ""


COLUMNS: Mapping[str, Cell] = {
    "right, %": right,
    "solved": solved,
    "beside uniform": lambda row, _: difference(row.beside_uniform),
    "beside plain": lambda row, _: difference(row.beside_plain),
    "on the right place": on_place,
    "AER": of_figure("aer", ".2f"),
    "facts, %": of_figure("facts", ".1f", True),
    "longer, %": of_figure("longer", ".1f", True),
    "permuted, %": of_figure("permuted", ".1f", True),
    "entropy": of_figure("entropy", ".2f"),
    "parameters": lambda row, _: f"{row.parameters:,}",
    "step, ms": of_figure("step_ms", ".1f"),
    "kept, MB": of_figure("kept_mb", ".1f"),
    "latency, ms": lambda row, _: "" if row.latency is None else f"{row.latency:.3f}",
}
