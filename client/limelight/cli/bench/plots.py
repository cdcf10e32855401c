"""Line plots as SVG that follows the page's colours."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from limelight.base.printing import escape_markup as escape

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 30, 30, 40
_NAME = 56  # width of a name above the plot
_TICKS = 5


@dataclass(frozen=True)
class Line:
    """A line of a plot: points (x, y) in order; a missing y (None) breaks it. style: a class of the page."""

    name: str
    points: Sequence[tuple[float, float | None]]
    style: str


@dataclass(frozen=True)
class Axis:
    """An axis. ticks: positions and their texts; empty for round numbers from 0."""

    title: str
    ticks: Sequence[tuple[float, str]] = ()


def plot(title: str, lines: Sequence[Line], x: Axis, y: Axis) -> str:
    """Draw lines over common axes; the y axis begins at 0."""
    points = [(each[0], each[1]) for line in lines for each in line.points if each[1] is not None]
    if not points:
        return ""
    x_ticks = x.ticks or round_ticks(max(each[0] for each in points))
    y_ticks = y.ticks or round_ticks(max(each[1] for each in points))
    left, right = min(0.0, *(each[0] for each in x_ticks)), max(each[0] for each in (*x_ticks, *points))
    top = max(each[0] for each in y_ticks)

    def across(value: float) -> float:
        return _LEFT + (value - left) / ((right - left) or 1) * (_WIDTH - _LEFT - _RIGHT)

    def up(value: float) -> float:
        return _HEIGHT - _BOTTOM - min(value, top) / (top or 1) * (_HEIGHT - _TOP - _BOTTOM)

    below = _HEIGHT - _BOTTOM + 16
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text class="title" x="{_LEFT}" y="16">{escape(title)}</text>')
    for place, text in y_ticks:
        parts.append(f'<path class="grid" d="M{_LEFT} {up(place):.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{up(place) + 4:.1f}" text-anchor="end">{text}</text>')
    for place, text in x_ticks:
        parts.append(f'<text class="tick" x="{across(place):.1f}" y="{below}" text-anchor="middle">{text}</text>')
    parts.append(
        f'<text class="tick" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">{escape(x.title)}</text>'
    )
    parts.append(f'<text class="tick" x="4" y="{_HEIGHT - 6}">{escape(y.title)}</text>')
    for number, line in enumerate(lines):
        pieces, pen = [], "M"
        for place, value in line.points:
            if value is None:
                pen = "M"
                continue
            pieces.append(f"{pen}{across(place):.1f} {up(value):.1f}")
            pen = "L"
        parts.append(f'<path class="{line.style}" d="{"".join(pieces)}"/>')
        if len(lines) > 1:
            place = _WIDTH - _RIGHT - _NAME * (len(lines) - 1 - number)
            parts.append(
                f'<text class="name {line.style}" x="{place}" y="16" text-anchor="end">{escape(line.name)}</text>'
            )
    return "".join(parts) + "</svg>"


def round_ticks(largest: float) -> list[tuple[float, str]]:
    """Return about five round numbers from 0 to at least the largest value, with their texts."""
    if not largest > 0:
        return [(0.0, "0"), (1.0, "1")]
    rough = largest / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    count = math.ceil(largest / step - 1e-9)
    return [(number * step, f"{number * step:,.10g}") for number in range(count + 1)]
