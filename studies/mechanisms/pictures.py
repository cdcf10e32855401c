"""The study's three pictures: who answers what, whether it looks where it should, and how it comes to be decided."""

from collections.abc import Mapping, Sequence

import numpy as np

from studies.charts import COLOURS, Curve, Dot, Panel, Strip, panels, scatter, shade, strips
from studies.mechanisms.line import FROZEN, UNIFORM
from studies.mechanisms.prose import listed, wrapped
from studies.mechanisms.summary import Row, Standings

GREY, BLUE, RED = COLOURS[6], COLOURS[0], COLOURS[1]
OF_CURVES = ("recall", "recall-1024", "babi2", "sort", "snli", "sentiment")
Points = Sequence[tuple[float, float]]


def pictures(found: Sequence[Standings]) -> Mapping[str, str]:
    """SVG by the picture's name."""
    return {"tasks": tasks(found), "places": places(found), "entropy": entropy(found)}


def tasks(found: Sequence[Standings]) -> str:
    """Every task a row, every mechanism a dot: how much of the test part it answers."""
    rows = []
    for each in found:
        dots = [Dot(row.accuracy, 0, *style(row), said=said(row)) for row in each.rows if not row.idle]
        rows.append(Strip(each.task.name, dots, f"best: {each.best.name}"))
    legend = {
        "mechanism": Dot(0),
        "uniform weights": Dot(0, colour=RED, mark="hollow"),
        "frozen random weights": Dot(0, colour=GREY, mark="cross"),
    }
    return strips(rows, title="Right answers by task", axis="share of the test part that is right", legend=legend)


def style(row: Row) -> tuple[str, str]:
    """Colour and mark."""
    if not row.line.control:
        return BLUE, "full"
    return {UNIFORM: (RED, "hollow"), FROZEN: (GREY, "cross")}[row.name]


def said(row: Row) -> str:
    """What a dot is."""
    return f"{row.name}: {100 * row.accuracy:.1f} %"


def places(found: Sequence[Standings]) -> str:
    """Every mechanism of every task with gold a dot: weight on the right place, right answers."""
    known = [each for each in found if any("share" in row.figures for row in each.rows)]
    colours = {each.task.name: COLOURS[number % len(COLOURS)] for number, each in enumerate(known)}
    marks = {each.task.name: "full" if number < len(COLOURS) else "hollow" for number, each in enumerate(known)}
    dots = [
        Dot(row.figures["share"], row.accuracy, colours[name], marks[name], f"{name}, {said(row)}")
        for each in known
        for row in each.rows
        if "share" in row.figures and not row.line.control and (name := each.task.name)
    ]
    legend = {name: Dot(0, colour=colours[name], mark=marks[name]) for name in colours}
    return scatter(
        dots, title="Looking right and answering right", across="weight on the right place",
        up="share of the test part that is right", legend=legend,
    )  # fmt: skip


def entropy(found: Sequence[Standings]) -> str:
    """How decided mechanisms become on some tasks, the darker the more they answer."""
    shown = [panel(each) for each in found if each.task.name in OF_CURVES]
    legend = {
        "most right answers of the task": Curve((), shade(1)),
        "fewest": Curve((), shade(0)),
        "frozen random weights": Curve((), RED, dashed=True),
    }
    return panels(
        shown, title="Entropy of the weights while learning", across="steps", up="entropy (1: equal weights)",
        legend=legend,
    )  # fmt: skip


def panel(found: Standings) -> Panel:
    """A task: its mechanisms, the best one on top, and the frozen control."""
    least, most = min(row.accuracy for row in found.mechanisms), found.best.accuracy
    drawn = []
    for row in sorted(found.mechanisms, key=lambda row: row.accuracy):
        part = (row.accuracy - least) / (most - least) if most > least else 1.0
        drawn.append(Curve(mean_entropy(row), shade(part), said(row)))
    if control := found.row(FROZEN):
        drawn.append(Curve(mean_entropy(control), RED, said(control), dashed=True))
    return Panel(found.task.name, f"best: {found.best.name}", drawn)


def mean_entropy(row: Row) -> Points:
    """The mean over seeds at the steps at which the longest run was looked at; runs that ended keep their last value.

    Looks in which nothing was looked at (-1) are left out; empty where that is all of them.
    """
    known = [
        ([step for step, _, value in run["curve"] if value >= 0], [value for *_, value in run["curve"] if value >= 0])
        for run in row.runs
    ]
    known = [each for each in known if each[0]]
    if not known:
        return ()
    steps, _ = max(known, key=lambda each: each[0][-1])
    values = np.mean([np.interp(steps, *each) for each in known], axis=0)
    return [(float(step), float(value)) for step, value in zip(steps, values, strict=True)]


def decided(found: Sequence[Standings]) -> str:
    """What the picture of entropies shows: how decided those are in the end that have most right answers."""
    ends = {
        each.task.name: each.best.figures["entropy"]
        for each in found
        if each.task.name in OF_CURVES and "entropy" in each.best.figures
    }
    near = [f"{name} ({value:.2f})" for name, value in ends.items() if value >= 0.5]
    far = [f"{name} ({value:.2f})" for name, value in ends.items() if value < 0.5]
    parts = [f"near an average on {listed(near)}" if near else "", f"decided on {listed(far)}" if far else ""]
    said = (
        "All scores begin equally decided; what alignments make of them is their own. Every mechanism is a line, the"
        " mean of its seeds (a run that ended keeps its last value), the darker the more answers are right."
    )
    if ends:
        said += f" The one with most right answers ends {', '.join(filter(None, parts))}."
    return wrapped(said)
