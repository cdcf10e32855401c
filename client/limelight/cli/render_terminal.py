"""Rendering of figures to the terminal: shaded words and heat maps in colour, or plain text with numbers."""

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.style import Style
from rich.text import Text

from limelight.cli.input_texts import input_lines
from limelight.cli.palettes import Palette, palette_of
from limelight.figures import Figure, GridHeatmap, lines_of
from limelight.predictions import Prediction

NEWLINE = "\n"
# Smallest width in columns of the words beside their labels.
_WORDS = 20


def show_prediction(prediction: Prediction, texts: Mapping[str, str], console: Console) -> None:
    """Print an answer in one line, below its input texts by their names."""
    made_by = prediction.provenance
    line = f"{made_by.model} version {made_by.version}: {prediction.headline}".removesuffix(": ")
    for each in (*input_lines(texts), line):
        console.print(each, markup=False, highlight=False, emoji=False, soft_wrap=True)
    if prediction.truncated:
        console.print("(the input was truncated to the model's limits)", highlight=False)
    if prediction.seed is not None:
        console.print(f"(sampled; --seed {prediction.seed} reproduces it)", highlight=False)
    if made_by.cached:
        console.print("(kept by the server from an equal request)", highlight=False)


def print_figures(figures: Iterable[Figure], console: Console) -> None:
    """Print figures, in colour if the console has colours, else as text with numbers."""
    coloured = console.is_terminal and console.color_system is not None and not console.no_color
    palette = palette_of(console)
    for figure in figures:
        console.print()
        if coloured:
            console.print(Text(figure.title, style="bold"))
            if figure.heat is None:
                shown = _shaded_rows(figure, palette, console)
            else:
                shown = _heat_lines(figure, figure.heat, palette, console.width)
            for line in shown:
                console.print(line)
        else:
            for text in plain(figure):
                console.print(text, soft_wrap=True, markup=False, highlight=False, emoji=False)
        for note in figure.notes:
            console.print(Text(note, style="dim" if coloured else ""), soft_wrap=not coloured)
        if coloured:
            console.print(_legend(figure, palette))


def plain(figure: Figure) -> Iterator[str]:
    """Format a figure as lines of text: the title, the names of the columns, then `word(weight)`, or a grid."""
    yield figure.title
    if figure.heat is not None:
        rows, columns = figure.heat.cells.shape
        yield f"{figure.value} of each of {rows} x {columns} {figure.key}"
        for name, weight in figure.heat.leading:
            yield f"{name} {_number(weight)}"
        for cells in figure.heat.cells.tolist():
            yield " ".join(f"{_number(weight):>6}" for weight in cells)
        return
    width = max((len(row.label) for row in figure.rows), default=0)
    yield _header(figure, width)
    for row, weights in zip(figure.rows, figure.shaded, strict=True):
        label = f"{row.label:<{width}}  " if width else ""
        own = "" if row.weight is None else f"{_number(row.weight):<6}  "
        left_out = "" if row.left_out is None else f"  left out: {row.left_out:.4f}"
        if len(row.words) == 1 and row.weight is not None:
            yield f"{label}{own}{row.gaps[0].rpartition(NEWLINE)[2]}{row.words[0]}{left_out}"
        else:
            # Of a row that `top_k` left out, the weights of words are not known.
            is_known = row.weight is None or not math.isnan(row.weight)
            words = zip(row.words, weights.tolist() if is_known else [math.nan] * len(weights), strict=True)
            shown = (f"{word}({_number(weight)})" for word, weight in words)
            lead = row.gaps[0].rpartition(NEWLINE)[2] if row.gaps else ""
            yield f"{label}{own}{lead}{' '.join(shown)}{left_out}"


def _header(figure: Figure, width: int) -> str:
    """Return the names of the columns of rows, whose labels have a width in characters."""
    names = [f"{figure.query:<{width}}"] if width else []
    if any(row.weight is not None for row in figure.rows):
        names.append("weight")
    alone = all(len(row.words) == 1 and row.weight is not None for row in figure.rows)
    return "  ".join([*names, figure.key if alone else f"{figure.key}({figure.value})"])


def _number(weight: float) -> str:
    return "-" if math.isnan(weight) else f"{round(weight, 4) + 0.0:.4f}"  # no -0.0000


def _legend(figure: Figure, palette: Palette) -> Text:
    """Return the colour scale of a figure, with the values at its ends."""
    low, high = figure.scale.ends
    ramp = Text().append(f"{low} ", "dim")
    for step in range(-8 if figure.signed else 0, 9):
        ramp.append("  ", palette.word(step / 8))
    return ramp.append(f" {high}", "dim")


def _shaded_rows(figure: Figure, palette: Palette, console: Console) -> Iterator[Text]:
    """Yield lines of shaded words; what does not fit into a line goes on below the words, not below the label."""
    rows, scale = figure.rows, figure.scale
    width = min(max((cell_len(row.label) for row in rows), default=0), console.width // 3)
    for row, weights in zip(rows, figure.shaded, strict=True):
        beside = Text()
        if width:
            label = set_cell_size(row.label, min(width, cell_len(row.label)))
            beside.append(" " * (width - cell_len(label)) + label + "  ", "bold")
        if row.weight is not None:
            beside.append("  -   " if math.isnan(row.weight) else f" {row.weight:.2f} ", "dim")
            beside.append(" ")
        margin = Text(" " * beside.cell_len)
        room = max(_WORDS, console.width - beside.cell_len)
        lines = lines_of(row, scale.strengths(weights).tolist())
        # The number is beside the first line that is not empty.
        first = next((number for number, parts in enumerate(lines) if parts), 0)
        for number, parts in enumerate(lines):
            words = Text()
            for text, strength in parts:
                words.append(text, palette.word(strength))
            if number == len(lines) - 1 and row.left_out is not None:
                words.append(f"  left out: {row.left_out:.3f}", "dim")
            for place, part in enumerate(words.wrap(console, room) or [words]):
                yield (beside if number == first and place == 0 else margin) + part


def _heat_lines(figure: Figure, heat: GridHeatmap, palette: Palette, width: int) -> Iterator[Text]:
    """Yield lines of cells, two columns each, or one where two do not fit."""
    columns = heat.cells.shape[1]
    wide = 2 if 2 * columns <= width else 1
    absent = np.isnan(heat.cells).tolist()
    for cells, missing in zip(figure.scale.strengths(heat.cells).tolist(), absent, strict=True):
        line = Text()
        for strength, is_missing in zip(cells[:width], missing[:width], strict=True):
            text, style = (" " * wide, Style.null()) if is_missing else palette.cell(strength, wide)
            line.append(text, style)
        yield line
    if columns > width:
        yield Text(f"({columns - width} of {columns} columns do not fit; --png draws all)", "dim")
    yield Text(caption(heat), style="dim")


def caption(heat: GridHeatmap) -> str:
    """Return the weight of the largest magnitude of a grid, and the weights of its leading entries."""
    largest = max(np.nan_to_num(heat.cells).ravel().tolist(), key=abs, default=0.0)
    before = "".join(f", {name} {'-' if math.isnan(weight) else f'{weight:.3f}'}" for name, weight in heat.leading)
    return f"largest {largest:.3f}{before}"
