"""Rendering of figures to the terminal: shaded words and heat maps in colour, or plain text with numbers."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from limelight.cli.colours import FAINT, colour, is_light, text_colour
from limelight.figures import Figure, GridHeatmap, lines_of

NEWLINE = "\n"


def print_figures(figures: Iterable[Figure], console: Console) -> None:
    """Print figures, in colour if the console has colours, else as text with numbers."""
    coloured = console.is_terminal and console.color_system is not None and not console.no_color
    for figure in figures:
        console.print()
        if coloured:
            console.print(Text(figure.title, style="bold"))
            for line in _shaded_rows(figure) if figure.heat is None else _heat_lines(figure, figure.heat):
                console.print(line)
        else:
            for text in plain(figure):
                console.print(text, soft_wrap=True, markup=False, highlight=False, emoji=False)
        for note in figure.notes if coloured else (each for each in figure.notes if not each.startswith("shaded:")):
            console.print(Text(note, style="dim" if coloured else ""), soft_wrap=not coloured)
        if coloured:
            console.print(legend(figure))


def plain(figure: Figure) -> Iterator[str]:
    """Format a figure as lines of text: `word(weight)`, or a grid of weights."""
    yield figure.title
    if figure.heat is not None:
        for name, weight in figure.heat.leading:
            yield f"{name} {_number(weight)}"
        for cells in figure.heat.cells.tolist():
            yield " ".join(f"{_number(weight):>6}" for weight in cells)
        return
    width = max((len(row.label) for row in figure.rows), default=0)
    for row in figure.rows:
        label = f"{row.label:<{width}}  " if width else ""
        own = "" if row.weight is None else f"{_number(row.weight):<6}  "
        left_out = "" if row.left_out is None else f"  left out: {row.left_out:.4f}"
        if len(row.words) == 1 and row.weight is not None:
            yield f"{label}{own}{row.gaps[0].rpartition(NEWLINE)[2]}{row.words[0]}{left_out}"
        else:
            words = zip(row.words, row.weights.tolist(), strict=True)
            shown = (f"{word}({_number(weight)})" for word, weight in words)
            lead = row.gaps[0].rpartition(NEWLINE)[2] if row.gaps else ""
            yield f"{label}{own}{lead}{' '.join(shown)}{left_out}"


def _number(weight: float) -> str:
    return "-" if math.isnan(weight) else f"{weight:.4f}"


def legend(figure: Figure) -> Text:
    """Return the colour scale of a figure, with the values at its ends."""
    low, high = figure.scale.ends
    ramp = Text(f"{low} ", "dim")
    for step in range(-8 if figure.signed else 0, 9):
        ramp.append("  ", _style(step / 8))
    return ramp.append(f" {high}", "dim")


def _shaded_rows(figure: Figure) -> Iterator[Text]:
    rows, scale = figure.rows, figure.scale
    width = max((len(row.label) for row in rows), default=0)
    for row, weights in zip(rows, figure.shaded, strict=True):
        beside = Text(f"{row.label:>{width}}  " if width else "", "bold")
        if row.weight is not None:
            beside.append("  -   " if math.isnan(row.weight) else f" {row.weight:.2f} ", "dim")
            beside.append(" ")
        lines = lines_of(row, scale.strengths(weights).tolist())
        # The number is beside the first line that is not empty.
        first = next((number for number, parts in enumerate(lines) if parts), 0)
        for number, parts in enumerate(lines):
            line = beside.copy() if number == first else Text(" " * len(beside))
            for text, strength in parts:
                line.append(text, _style(strength))
            if number == len(lines) - 1 and row.left_out is not None:
                line.append(f"  left out: {row.left_out:.3f}", "dim")
            yield line


def _heat_lines(figure: Figure, heat: GridHeatmap) -> Iterator[Text]:
    absent = np.isnan(heat.cells).tolist()
    for cells, missing in zip(figure.scale.strengths(heat.cells).tolist(), absent, strict=True):
        line = Text()
        for strength, is_missing in zip(cells, missing, strict=True):
            if is_missing:
                line.append("  ")
            else:
                line.append("██", Style(color=Color.from_rgb(*colour(strength, on_light=is_light()))))
        yield line
    yield Text(caption(heat), style="dim")


def caption(heat: GridHeatmap) -> str:
    """Return the largest weight of a grid, and the weights of its leading entries."""
    largest = float(np.nanmax(np.abs(heat.cells), initial=0.0))
    before = "".join(f", {name} {'-' if math.isnan(weight) else f'{weight:.3f}'}" for name, weight in heat.leading)
    return f"largest {largest:.3f}{before}"


def _style(strength: float) -> Style:
    if abs(strength) < FAINT:
        return Style.null()
    background = colour(strength, on_light=is_light())
    return Style(color=Color.from_rgb(*text_colour(background)), bgcolor=Color.from_rgb(*background))
