"""The conditions of training by task: examples, steps, and whether the range of learning rates suffices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from research.mechanisms.prose import listed, wrapped
from research.mechanisms.summary import Row, Standings
from research.mechanisms.tasks import Task
from research.replication.figures import percent

NAMED = 3
HEAD = "| task | learned from | steps × batch | each seen | rate at an edge | stopped by the limit |"


@dataclass(frozen=True)
class Terms:
    """Training terms of a task.

    tuned: lines of which several rates were tried; lowest, highest: those of them whose best rate is one of these.
    runs: of all lines and seeds; stopped: those that ended at the limit of steps.
    """

    task: Task
    tuned: int
    lowest: int
    highest: int
    runs: int
    stopped: int

    @property
    def edge(self) -> int:
        """Lines whose rate is the lowest or the highest that was tried."""
        return self.lowest + self.highest

    @property
    def limited(self) -> float:
        """The share of runs that ended at the limit."""
        return self.stopped / self.runs

    @property
    def seen(self) -> float:
        """Number of times that an example is seen before the limit."""
        return self.task.steps * self.task.batch / self.task.training


def terms_of(found: Standings) -> Terms:
    """Count them over all lines of a task."""
    runs = [run for row in found.rows for run in row.runs]
    edges = [edge for row in found.rows if (edge := edge_of(row)) is not None]
    stopped = sum(run["steps"] >= found.task.steps for run in runs)
    return Terms(found.task, len(edges), edges.count(-1), edges.count(1), len(runs), stopped)


def edge_of(row: Row) -> int | None:
    """-1 where the lowest rate that was tried was the best, 1 for the highest, 0 between; None without a trial."""
    for run in row.runs:
        if run["tried"]:
            tried = sorted(map(float, run["tried"]))
            return int(run["rate"] == tried[-1]) - int(run["rate"] == tried[0])
    return None


def terms_table(found: Sequence[Standings]) -> Iterator[str]:
    """A row for each task."""
    yield f"{HEAD}\n|---|---:|---:|---:|---:|---:|\n"
    for each in map(terms_of, found):
        task = each.task
        size = f"{task.training:,} | {task.steps:,} × {task.batch} | {each.seen:.{0 if each.seen >= 10 else 1}f} times"
        edge = f"{each.edge} of {each.tuned} ({each.lowest} lowest, {each.highest} highest)"
        yield f"| `{task.name}` | {size} | {edge} | {100 * each.limited:.0f} % |\n"


def speed(found: Sequence[Standings]) -> str:
    """A note on the end of training and its meaning."""
    terms = [terms_of(each) for each in found]
    long = sorted((each for each in terms if each.limited > 0.5), key=lambda each: -each.limited)
    edged = sorted((each for each in terms if each.tuned), key=lambda each: -each.edge / each.tuned)
    names = [f"{each.task.name} ({100 * each.limited:.0f} %)" for each in long[:NAMED]]
    edges = [f"{each.task.name} ({each.edge} of {each.tuned})" for each in edged[:NAMED]]
    said = f"**Speed, not the end.** Training is short: on {len(long)} of {len(terms)} tasks more than half of the runs"
    said += f" were stopped by the limit of steps{f', above all on {listed(names)}' if names else ''}."
    if long:
        said += " There the tables say who learns fastest, not who is best in the end."
    if dates := next((each for each in found if each.task.name == "dates"), None):
        said += f" The best mechanism here has {percent(dates.best.accuracy)} of the dates right; an RNNsearch that"
        said += (
            " learns longer, from 30,000 of them, [has more than 98 %](results.md), and so it has with equal weights:"
        )
        said += " what is learned slowly there need not be learned by attention in the end."
    edge, tuned = sum(each.edge for each in terms), sum(each.tuned for each in terms)
    if tuned:
        said += f" Of {tuned} tuned lines {edge} chose the lowest or the highest of their rates, most often on"
        said += f" {listed(edges)} (by chance, two of three would): a rate beyond those tried may be better still."
    return wrapped(said)
