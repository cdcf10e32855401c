"""The study's three pictures: who answers what, whether it looks where it should, and how it comes to be decided."""

from collections.abc import Mapping, Sequence

from benchmarks.charts import COLOURS, Dot, Strip, curves, scatter, strips
from benchmarks.mechanism_study.line import FROZEN, UNIFORM
from benchmarks.mechanism_study.summary import Row, Standings

GREY, BLUE, RED = COLOURS[6], COLOURS[0], COLOURS[1]
OF_CURVES = "recall"
SHOWN = (
    "scaled multiplicative", "additive", "cosine similarity", "sparsemax × scaled multiplicative",
    "sigmoid × scaled multiplicative", "hard, straight-through × scaled multiplicative", "multi-head",
    "generalised kernel",
)  # fmt: skip


def pictures(found: Sequence[Standings]) -> Mapping[str, str]:
    """SVG by the picture's name."""
    return {"tasks": tasks(found), "places": places(found), "entropy": entropy(found)}


def tasks(found: Sequence[Standings]) -> str:
    """Every task a row, every mechanism a dot: how much of the test part it answers."""
    rows = []
    for each in found:
        dots = [Dot(row.accuracy, 0, *style(row), said=said(row)) for row in each.rows if not row.idle]
        rows.append(Strip(each.task.name, dots, f"best: {max(each.mechanisms, key=lambda row: row.accuracy).name}"))
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
    """How decided some mechanisms become while they learn to recall (first seed)."""
    lines = {
        row.name: [(float(step), value) for step, _, value in row.curve if value >= 0]
        for each in found
        if each.task.name == OF_CURVES
        for row in each.rows
        if row.name in SHOWN
    }
    return curves(
        lines, title="Entropy of the weights while learning to recall", across="steps",
        up="entropy (1: equal weights)",
    )  # fmt: skip
