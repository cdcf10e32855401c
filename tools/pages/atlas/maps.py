"""A map of a served sample as a small SVG, which can be read on a light page and on a dark one."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

CELL, GAP, FONT = 18, 1, 11
SHADES = 25
_LETTER = 6.2  # pixels that a character of the labels takes
_LONGEST = 14  # characters of a label
# From where there is no weight to where there is most: on white and on black alike the strongest stands out.
_PLAIN = str.maketrans("[]", "()")  # a picture's words in Markdown stand in square brackets
ABOVE, BELOW = "#e8590c", "#1c7ed6"


def svg(sample: Mapping[str, Any]) -> str:
    """Draw it: queries downwards, keys along the top, the more colour the more weight; blue takes away."""
    weights: Sequence[Sequence[float]] = sample["weights"]
    rows, columns = named(sample)
    most = max((abs(each) for line in weights for each in line), default=0) or 1
    left = 6 + round(max((len(each) for each in rows), default=0) * _LETTER)
    top = 6 + round(max((len(each) for each in columns), default=0) * _LETTER)
    wide, high = left + CELL * len(weights[0]) + 4, top + CELL * len(weights) + 4
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'font-family="sans-serif" font-size="{FONT}" fill="#868e96" role="img">',
        f"<title>{escape(alt(sample))}</title>",
        f'<path d="M{left} {top}h{CELL * len(weights[0])}v{CELL * len(weights)}h-{CELL * len(weights[0])}z" '
        'fill="none" stroke="#868e96" stroke-width=".5"/>',
    ]
    cells: dict[tuple[str, float], list[str]] = defaultdict(list)  # as thick strokes of one colour each
    for number, line in enumerate(weights):
        y = top + CELL * number
        if rows:
            parts.append(f'<text x="{left - 4}" y="{y + 13}" text-anchor="end">{escape(rows[number])}</text>')
        for place, weight in enumerate(line):
            if share := round(abs(weight) / most * SHADES):
                at = f"M{left + CELL * place} {y + CELL // 2}h{CELL - GAP}"
                cells[BELOW if weight < 0 else ABOVE, share / SHADES].append(at)
    parts += [
        f'<path d="{"".join(found)}" stroke="{colour}" stroke-opacity="{share:g}" stroke-width="{CELL - GAP}"/>'
        for (colour, share), found in sorted(cells.items())
    ]
    for place, name in enumerate(columns):
        x = left + CELL * place + 13
        parts.append(f'<text transform="translate({x} {top - 4})rotate(-90)">{escape(name)}</text>')
    return "".join([*parts, "</svg>\n"])


def named(sample: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Labels of rows and columns, short; none along an axis whose entries have no names."""
    weights = sample["weights"]
    counts = (len(weights), len(weights[0]))
    labels = ([short(each) for each in sample[axis]] for axis in ("rows", "columns"))
    rows, columns = (each if len(each) == count else [] for each, count in zip(labels, counts, strict=True))
    return rows, columns


def short(label: str) -> str:
    """A label that fits, without line breaks."""
    plain = " ".join(label.split()) or "␣"
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"


def alt(sample: Mapping[str, Any]) -> str:
    """What the picture shows, in words."""
    weights = sample["weights"]
    found = ((abs(each), row, column) for row, line in enumerate(weights) for column, each in enumerate(line))
    most, row, column = max(found, key=lambda each: each[0])
    rows, columns = named(sample)
    at = " to ".join([*rows[row : row + 1], *columns[column : column + 1]])
    where = f" ({at.translate(_PLAIN)})" if at else ""
    return f"Attention {sample['map']}: {len(weights)} by {len(weights[0])}, the largest weight {most:g}{where}"
