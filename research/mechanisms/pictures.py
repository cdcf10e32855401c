"""The study's three pictures: right answers, weight on the right place, and entropy over training."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from research.mechanisms.line import FROZEN, UNIFORM
from research.mechanisms.summary import Row, Standings

# Okabe and Ito (2008): told apart by people of any colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c5c5c", "#a08a00")
GREY, BLUE, RED = COLOURS[6], COLOURS[0], COLOURS[1]
MECHANISM: Mapping[str, Any] = {"color": BLUE, "alpha": 0.75, "s": 20}
CONTROLS: Mapping[str, Mapping[str, Any]] = {
    UNIFORM: {"facecolors": "white", "edgecolors": RED, "s": 28},
    FROZEN: {"color": GREY, "marker": "x", "s": 28},
}
# Text stays text, and the same figures give the same file.
STYLE: Mapping[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "limelight",
    "font.size": 9,
    "font.sans-serif": ["DejaVu Sans"],
    "grid.color": "#d0d0d0",
}
SHADES = matplotlib.colormaps["Blues"]
Points = Sequence[tuple[float, float]]


def pictures(found: Sequence[Standings]) -> Mapping[str, Figure]:
    """Draw the pictures, by name."""
    with matplotlib.rc_context(STYLE):
        return {"tasks": tasks(found), "places": places(found), "entropy": entropy(found)}


def save(figure: Figure, file: Path) -> None:
    """Write a picture as SVG."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})


def tasks(found: Sequence[Standings]) -> Figure:
    """Draw a row for each task and a dot for each mechanism: the share of the test part that is right."""
    figure = Figure(figsize=(9.6, 1.1 + 0.27 * len(found)), layout="constrained")
    axes = figure.subplots()
    for place, each in enumerate(found):
        rows = [row for row in each.rows if not row.idle]
        for name, style in ((None, MECHANISM), *CONTROLS.items()):
            values = [row.accuracy for row in rows if (row.name == name if name else not row.line.control)]
            label = (name or "mechanism") if not place else None
            axes.scatter(values, [place] * len(values), label=label, zorder=2, **style)
    axes.set_yticks(range(len(found)), [each.task.name for each in found])
    axes.set_ylim(len(found) - 0.5, -0.5)
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(found)), [f"best: {each.best.name}" for each in found])
    axes.set(xlim=(-0.02, 1.02), xlabel="share of the test part that is right")
    axes.grid()
    figure.legend(loc="outside upper center", ncols=1 + len(CONTROLS), frameon=False)
    return figure


def places(found: Sequence[Standings]) -> Figure:
    """Draw a dot for each mechanism of each task with evidence: weight on the right place, and right answers."""
    figure = Figure(figsize=(8.0, 5.2), layout="constrained")
    axes = figure.subplots()
    known = [each for each in found if any("share" in row.figures for row in each.rows)]
    for number, each in enumerate(known):
        rows = [row for row in each.rows if "share" in row.figures and not row.line.control]
        colour = COLOURS[number % len(COLOURS)]
        fill = colour if number < len(COLOURS) else "white"
        points = [row.figures["share"] for row in rows], [row.accuracy for row in rows]
        axes.scatter(*points, s=20, facecolors=fill, edgecolors=colour, label=each.task.name, zorder=2)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.set(xlabel="weight on the right place", ylabel="share of the test part that is right")
    axes.grid()
    figure.legend(loc="outside right upper", frameon=False)
    return figure


def entropy(found: Sequence[Standings]) -> Figure:
    """Draw the entropy of the weights while some tasks are learned, darker for more right answers."""
    shown = [each for each in found if each.task.drawn]
    figure = Figure(figsize=(9.6, 0.8 + 2.3 * -(-len(shown) // 3)), layout="constrained")
    for axes, each in zip(
        figure.subplots(-(-len(shown) // 3), 3, sharey=True, squeeze=False).flat, shown, strict=False
    ):
        panel(axes, each)
    for label, style in (
        ("most right answers of the task", {"color": SHADES(1.0)}),
        ("fewest", {"color": SHADES(0.25)}),
        (FROZEN, {"color": RED, "linestyle": "--"}),
    ):
        figure.axes[0].plot([], [], label=label, **style)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.supxlabel("steps", fontsize=9)
    figure.supylabel("entropy (1: equal weights)", fontsize=9)
    return figure


def panel(axes: Axes, found: Standings) -> None:
    """Draw a task: its mechanisms, the best one on top, and the frozen control."""
    least, most = min(row.accuracy for row in found.mechanisms), found.best.accuracy
    for row in sorted(found.mechanisms, key=lambda row: row.accuracy):
        part = (row.accuracy - least) / (most - least) if most > least else 1.0
        axes.plot(*line(row), color=SHADES(0.25 + 0.75 * part), linewidth=1.3)
    if control := found.row(FROZEN):
        axes.plot(*line(control), color=RED, linestyle="--", linewidth=1.3)
    axes.set_title(f"{found.task.name}\n{fill(f'best: {found.best.name}', width=36)}", loc="left", fontsize=9)
    axes.set_ylim(-0.02, 1.02)
    axes.grid()


def line(row: Row) -> tuple[list[float], list[float]]:
    """Give the steps and the entropies of a line."""
    points = mean_entropy(row)
    return [step for step, _ in points], [value for _, value in points]


def mean_entropy(row: Row) -> Points:
    """The mean over seeds at the steps at which the longest run was looked at; runs that ended keep their last value.

    Looks in which nothing was looked at (-1) are left out; empty where that is all of them.
    """
    known = [
        ([step for step, value in run["curve"] if value >= 0], [value for _, value in run["curve"] if value >= 0])
        for run in row.runs
    ]
    known = [each for each in known if each[0]]
    if not known:
        return ()
    steps, _ = max(known, key=lambda each: each[0][-1])
    values = np.mean([np.interp(steps, *each) for each in known], axis=0)
    return [(float(step), float(value)) for step, value in zip(steps, values, strict=True)]
