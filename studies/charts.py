"""Small charts as SVG, in plain code: dots on rows, points on a plane, lines over steps in small multiples."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito (2008): told apart by people of any colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c5c5c", "#a08a00")
PALE, DARK = (0xC6, 0xDB, 0xEF), (0x08, 0x30, 0x6B)  # of one hue, red, green and blue
INK, FAINT = "#222222", "#d0d0d0"
LETTER = 6.4  # width of a letter of the smaller text, about


@dataclass(frozen=True)
class Dot:
    """A value on a row or a plane. mark: full, hollow or cross. said: shown by what reads the picture aloud."""

    x: float
    y: float = 0.0
    colour: str = COLOURS[0]
    mark: str = "full"
    said: str = ""


@dataclass(frozen=True)
class Strip:
    """A row of dots with what stands to its left and to its right."""

    name: str
    dots: Sequence[Dot]
    note: str = ""


@dataclass(frozen=True)
class Curve:
    """A line through points (step, value). said: shown by what reads the picture aloud."""

    points: Sequence[tuple[float, float]]
    colour: str
    said: str = ""
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One of small multiples: what stands above it, and its lines, the last on top."""

    name: str
    note: str
    curves: Sequence[Curve]


def strips(rows: Sequence[Strip], *, title: str, axis: str, legend: Mapping[str, Dot]) -> str:
    """Rows of dots between 0 and 1, the marks of the legend above."""
    left, right, height = 250.0, 330.0, 24.0
    width, top = left + 380 + right, 64.0
    bottom = top + height * len(rows)
    place = Scale(0, 1, left, width - right)

    def inside() -> Iterator[str]:
        yield from _legend(legend, left, 30)
        yield from _vertical(place, top - 8, bottom, axis)
        for number, row in enumerate(rows):
            y = top + height * (number + 0.5)
            yield _line(left, y, width - right, y, FAINT)
            yield _text(left - 10, y + 4, row.name, "end")
            yield _text(width - right + 12, y + 4, row.note, "start")
            yield from (_mark(place(dot.x), y, dot) for dot in row.dots)

    return _picture(width, bottom + 44, title, inside())


def scatter(dots: Sequence[Dot], *, title: str, across: str, up: str, legend: Mapping[str, Dot]) -> str:
    """Points between 0 and 1 both ways."""
    left, top, size, right = 70.0, 24.0, 420.0, 300.0
    x, y = Scale(0, 1, left, left + size), Scale(0, 1, top + size, top)

    def inside() -> Iterator[str]:
        yield from _vertical(x, top, top + size, across)
        yield from _horizontal(y, left, left + size, up)
        yield from (_mark(x(dot.x), y(dot.y), dot) for dot in dots)
        for number, (name, dot) in enumerate(legend.items()):
            yield _mark(left + size + 24, top + 14 + 22 * number, dot)
            yield _text(left + size + 36, top + 18 + 22 * number, name, "start")

    return _picture(left + size + right, top + size + 48, title, inside())


def panels(
    shown: Sequence[Panel], *, title: str, across: str, up: str, legend: Mapping[str, Curve], columns: int = 3
) -> str:
    """Small multiples: lines over steps between 0 and 1, each panel with steps of its own, the legend above."""
    left, top, wide, high, gap, under = 70.0, 84.0, 275.0, 150.0, 40.0, 92.0
    rows = -(-len(shown) // columns)

    def inside() -> Iterator[str]:
        place = left
        for name, curve in legend.items():
            yield _path([(place, 24.0), (place + 24, 24.0)], curve)
            yield _text(place + 30, 28, name, "start")
            place += 60 + LETTER * len(name)
        for number, each in enumerate(shown):
            x, y = left + (number % columns) * (wide + gap), top + (number // columns) * (high + under)
            yield from _panel(each, x, y, wide, high, across)
        middle = top + (rows * (high + under) - under) / 2
        yield f'<g transform="rotate(-90 18 {middle:.1f})">{_text(18, middle, up, "middle")}</g>'

    return _picture(left + columns * (wide + gap), top + rows * (high + under) - under + 48, title, inside())


def _panel(shown: Panel, left: float, top: float, wide: float, high: float, across: str) -> Iterator[str]:
    last = max((step for curve in shown.curves for step, _ in curve.points), default=1.0)
    x, y = Scale(0, last, left, left + wide), Scale(0, 1, top + high, top)
    yield f'<g font-weight="bold">{_text(left, top - 24, shown.name, "start")}</g>'
    yield _text(left, top - 9, shown.note, "start")
    yield from _vertical(x, top, top + high, across, steps=[0, last / 2, last])
    for value in (0.0, 0.5, 1.0):
        yield _line(left, y(value), left + wide, y(value), FAINT)
        yield _text(left - 6, y(value) + 4, _number(value), "end")
    for curve in shown.curves:
        if curve.points:
            yield _path([(x(step), y(value)) for step, value in curve.points], curve)


def _path(points: Sequence[tuple[float, float]], curve: Curve) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 3"' if curve.dashed else ""
    said = f"<title>{escape(curve.said)}</title>" if curve.said else ""
    return f'<polyline points="{path}" fill="none" stroke="{curve.colour}" stroke-width="1.8"{dash}>{said}</polyline>'


def shade(part: float) -> str:
    """A blue between pale (0) and dark (1)."""
    mixed = (round(low + part * (high - low)) for low, high in zip(PALE, DARK, strict=True))
    return "#" + "".join(f"{each:02x}" for each in mixed)


@dataclass(frozen=True)
class Scale:
    """From values to pixels."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


def _legend(legend: Mapping[str, Dot], left: float, y: float) -> Iterator[str]:
    for name, dot in legend.items():
        yield _mark(left + 6, y, dot)
        yield _text(left + 16, y + 4, name, "start")
        left += 40 + LETTER * len(name)


def _vertical(place: Scale, top: float, bottom: float, name: str, steps: Iterable[float] = ()) -> Iterator[str]:
    for value in [*steps] or [0, 0.25, 0.5, 0.75, 1]:
        yield _line(place(value), top, place(value), bottom, FAINT)
        yield _text(place(value), bottom + 16, _number(value), "middle")
    yield _text((place.begin + place.end) / 2, bottom + 36, name, "middle")


def _horizontal(place: Scale, left: float, right: float, name: str) -> Iterator[str]:
    for part in range(5):
        value = place.low + (place.high - place.low) * part / 4
        yield _line(left, place(value), right, place(value), FAINT)
        yield _text(left - 8, place(value) + 4, _number(value), "end")
    middle = (place.begin + place.end) / 2
    yield f'<g transform="rotate(-90 18 {middle:.1f})">{_text(18, middle, name, "middle")}</g>'


def _number(value: float) -> str:
    return f"{value:g}" if value <= 1 else f"{value:,.0f}"


def _mark(x: float, y: float, dot: Dot) -> str:
    said = f"<title>{escape(dot.said)}</title>" if dot.said else ""
    if dot.mark == "cross":
        path = f"M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8"
        return f'<path d="{path}" stroke="{dot.colour}" stroke-width="2" fill="none">{said}</path>'
    fill = "white" if dot.mark == "hollow" else dot.colour
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{fill}" fill-opacity="0.75" stroke="{dot.colour}"'
        f' stroke-width="1.5">{said}</circle>'
    )


def _line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _picture(width: float, height: float, title: str, inside: Iterable[str]) -> str:
    body = "\n".join(inside)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
        f' height="{height:.0f}" role="img" font-family="sans-serif" font-size="12">\n<title>{escape(title)}</title>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )
