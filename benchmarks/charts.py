"""Small charts as SVG, in plain code: dots on rows, points on a plane, lines over steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

# Okabe and Ito (2008): told apart by people of any colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5c5c5c", "#a08a00")
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


def curves(
    lines: Mapping[str, Sequence[tuple[float, float]]], *, title: str, across: str, up: str, most: float = 1.0
) -> str:
    """Lines over steps, between 0 and `most`; names stand at their right, in the order in which they end."""
    left, top, wide, high, right = 70.0, 24.0, 480.0, 320.0, 320.0
    last = max((step for points in lines.values() for step, _ in points), default=1.0)
    x, y = Scale(0, last, left, left + wide), Scale(0, most, top + high, top)

    def inside() -> Iterator[str]:
        yield from _vertical(x, top, top + high, across, steps=[last * part / 4 for part in range(5)])
        yield from _horizontal(y, left, left + wide, up)
        ends = sorted(lines, key=lambda name: -lines[name][-1][1])
        names = _apart([y(lines[name][-1][1]) for name in ends], 17, top + high)
        for number, name in enumerate(ends):
            colour, points = COLOURS[number % len(COLOURS)], lines[name]
            path = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in points)
            dash = "" if number < len(COLOURS) else ' stroke-dasharray="5 3"'
            yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'
            end = x(points[-1][0])
            yield f'<circle cx="{end:.1f}" cy="{y(points[-1][1]):.1f}" r="3" fill="{colour}"/>'
            yield _line(end + 4, y(points[-1][1]), left + wide + 12, names[number], FAINT)
            yield _text(left + wide + 16, names[number] + 4, name, "start", colour)

    return _picture(left + wide + right, top + high + 48, title, inside())


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


def _apart(places: Sequence[float], least: float, bottom: float) -> list[float]:
    """Places from the top, moved so far that none touches another, and none lies below the bottom."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + least) if found else place)
    for number in reversed(range(len(found))):
        lowest = bottom if number == len(found) - 1 else found[number + 1] - least
        found[number] = min(found[number], lowest)
    return found


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
