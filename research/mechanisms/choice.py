"""The choice of a mechanism for a task: those as good as the best, in order of preference."""

from collections.abc import Mapping, Sequence
from enum import Enum

from research.mechanisms.line import UNIFORM
from research.mechanisms.statistics import Effect
from research.mechanisms.summary import Row, Standings, beats, compared

NEAR = 0.02  # of all examples, below the best: as good
WORSE = 0.01  # shown to be more than this below the best: not as good, however near
MOST = 0.5  # of its weight
QUARTER = 1.25  # times the cheapest training step: as cheap


class Verdict(Enum):
    """The verdict of a task's results."""

    MECHANISM = "a mechanism"
    AVERAGE = "an average, which none was shown to beat"
    NOTHING = "nothing, since none learned the task"


def verdict(found: Standings) -> Verdict:
    """Whether anything is to be advised."""
    gain = advantage(found)
    if not found.learned:
        return Verdict.NOTHING
    return Verdict.AVERAGE if gain is not None and gain.low <= 0 else Verdict.MECHANISM


def advantage(found: Standings) -> Effect | None:
    """Of the best mechanism over the plain average."""
    uniform = found.row(UNIFORM)
    return None if uniform is None else compared(found.best, uniform)


def near(found: Standings, row: Row) -> bool:
    """Whether a row is as good as the best mechanism.

    Not to be shown worse is not enough: where one seed fails and another does not, nothing is shown. To be shown worse
    is not enough either: three of a thousand examples can be certain and matter to nobody.
    """
    return row.accuracy >= found.best.accuracy - NEAR and not beats(found.best, row, by=WORSE)


def ranked(found: Standings, by_task: Mapping[str, Standings]) -> list[Row]:
    """The mechanisms that are as good as the best, in the order of the rule."""
    equal = [row for row in found.mechanisms if row is found.best or near(found, row)]
    best_longer = max((row.figures["longer"] for row in equal if "longer" in row.figures), default=0.0)
    further = [by_task[name] for name in found.task.further if name in by_task]

    def merits(row: Row) -> tuple[bool, bool]:
        holds = row.figures.get("longer", 0.0) >= best_longer - NEAR and holds_further(row, further)
        return not holds, place(row) < MOST

    first = min(merits(row) for row in equal)
    enough = QUARTER * min(row.figures["step_ms"] for row in equal if merits(row) == first)

    def order(row: Row) -> tuple[bool, bool, bool, bool, float]:
        time = row.figures["step_ms"]
        return *merits(row), time > enough, row.name != found.task.plain, time

    return sorted(equal, key=order)


def holds_further(row: Row, further: Sequence[Standings]) -> bool:
    """Whether a mechanism is as good as the best in longer texts too, wherever it was run there."""
    return all(near(each, same) for each in further if (same := each.row(row.name)))


def place(row: Row) -> float:
    """The share of its weight that lies on the right place, or of supporting facts that it finds; 0 if unknown."""
    return row.figures.get("share", row.figures.get("facts", 0.0))
