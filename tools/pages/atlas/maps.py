"""A map of a served sample as a small SVG, which can be read on a light page and on a dark one."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

CELL, GAP, FONT = 18, 1, 11
_LETTER = 6.2  # pixels that a character of the labels takes
_LONGEST = 14  # characters of a label
# From where there is no weight to where there is most: on white and on black alike the strongest stands out.
ABOVE, BELOW = "#e8590c", "#1c7ed6"


def svg(sample: Mapping[str, Any]) -> str:
    """Draw it: queries downwards, keys along the top, the more colour the more weight; blue takes away."""
    weights: Sequence[Sequence[float]] = sample["weights"]
    rows, columns = ([short(each) for each in sample[axis]] for axis in ("rows", "columns"))
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
    for number, line in enumerate(weights):
        y = top + CELL * number
        if rows:
            parts.append(f'<text x="{left - 4}" y="{y + 13}" text-anchor="end">{escape(rows[number])}</text>')
        for place, weight in enumerate(line):
            if share := round(abs(weight) / most, 2):
                colour = BELOW if weight < 0 else ABOVE
                x = left + CELL * place
                parts.append(
                    f'<path d="M{x} {y}h{CELL - GAP}v{CELL - GAP}h-{CELL - GAP}z" fill="{colour}" '
                    f'fill-opacity="{share:g}"/>'
                )
    for place, name in enumerate(columns):
        x = left + CELL * place + 13
        parts.append(f'<text transform="translate({x} {top - 4})rotate(-90)">{escape(name)}</text>')
    return "".join([*parts, "</svg>\n"])


def short(label: str) -> str:
    """A label that fits, without line breaks."""
    plain = " ".join(label.split()) or "␣"
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"


def alt(sample: Mapping[str, Any]) -> str:
    """What the picture shows, in words."""
    weights = sample["weights"]
    found = ((abs(each), row, column) for row, line in enumerate(weights) for column, each in enumerate(line))
    most, row, column = max(found, key=lambda each: each[0])
    rows, columns = sample["rows"], sample["columns"]
    at = [rows[row]] * bool(rows) + [columns[column]] * bool(columns)
    named = f" ({' to '.join(short(each) for each in at)})" if at else ""
    return f"Attention {sample['map']}: {len(weights)} by {len(weights[0])}, the largest weight {most:g}{named}"
