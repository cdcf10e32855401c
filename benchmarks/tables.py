"""Markdown tables and bars, for every benchmark."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

DISTURBED = 0.15  # the share of the machine that others may take


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Write a table, its first column to the left and the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def number(value: float | None, form: str = ".0f") -> str:
    """Write a number; nothing where there is none."""
    return "–" if value is None or value != value else format(value, form)


def ratio(above: float | None, below: float | None) -> float | None:
    """Divide, where both are there."""
    return above / below if above is not None and below else None


@dataclass(frozen=True)
class Bar:
    """What was set as a goal: `value` is at least, or at most, `goal`; None where it was not measured.

    by_cpu: the same ratio of rates from processor time a call, which other programs change little: what it would be
    where both are held up by nothing but the cores. disturbed: the largest share of the machine that others took.
    """

    name: str
    value: float | None
    goal: float
    at_most: bool = False
    unit: str = ""
    by_cpu: float | None = None
    disturbed: float = 0.0

    @property
    def met(self) -> bool | None:
        if self.value is None or self.value != self.value:
            return None
        return self.value <= self.goal if self.at_most else self.value >= self.goal

    def row(self) -> list[str]:
        """Write it as a row of a table."""
        unit = f" {self.unit}" if self.unit else ""
        sign = "≤" if self.at_most else "≥"
        said = {True: "met", False: "**missed**", None: "not measured"}[self.met]
        if self.disturbed > DISTURBED:
            said += f", but others took {self.disturbed:.0%} of the machine"
        measured = number(self.value, ".2f") + unit
        return [self.name, measured, number(self.by_cpu, ".2f"), f"{sign} {self.goal:g}{unit}", said]


def bar_table(bars: Iterable[Bar]) -> list[str]:
    """Write bars as a table, with processor time where a bar has it."""
    found = list(bars)
    head, rows = ["bar", "measured", "by processor time", "goal", ""], [bar.row() for bar in found]
    if all(bar.by_cpu is None for bar in found):
        head, rows = [head[0], head[1], *head[3:]], [[row[0], row[1], *row[3:]] for row in rows]
    return table(head, rows)
