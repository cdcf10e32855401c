"""Styles of strengths on a terminal, by the number of its colours.

With 256 colours or all of them, a strength has the nearest colour of `colours.colour`. With 8 or 16, nearest colours
would not be in order, so that strengths have a few steps of the first eight colours: on a dark background blue, cyan,
white, on a light one cyan, blue, black. Negative values are red and yellow.
"""

import os
from bisect import bisect_right
from dataclasses import dataclass

from rich.color import Color
from rich.console import Console
from rich.style import Style

from limelight.colours import colour, text_colour
from limelight.scale import FAINT

_BLACK, _RED, _YELLOW, _BLUE, _CYAN, _WHITE = 0, 1, 3, 4, 6, 7
_FEW_ON_DARK = ((_BLUE, _CYAN, _WHITE), (_RED, _YELLOW))
_FEW_ON_LIGHT = ((_CYAN, _BLUE, _BLACK), (_YELLOW, _RED))
_LIGHT_COLOURS = {_CYAN, _YELLOW, _WHITE}  # black is legible on them
# Light among the sixteen colours that a terminal numbers.
_LIGHT = {"7", "9", "10", "11", "12", "13", "14", "15"}


@dataclass(frozen=True)
class Palette:
    """Styles of strengths from -1 to 1. The stronger of two is never closer to the background."""

    few: bool
    """Whether the terminal has eight or sixteen colours."""
    on_light: bool

    def word(self, strength: float) -> Style:
        """Return the style of a word; none for a faint strength."""
        if abs(strength) < FAINT:
            return Style.null()
        if self.few:
            background = self._step(strength)
            ink = _BLACK if background in _LIGHT_COLOURS else _WHITE
            return Style(color=Color.from_ansi(ink), bgcolor=Color.from_ansi(background))
        shade = colour(strength, on_light=self.on_light)
        return Style(color=Color.from_rgb(*text_colour(shade)), bgcolor=Color.from_rgb(*shade))

    def cell(self, strength: float, width: int) -> tuple[str, Style]:
        """Return the text of a cell of a grid, so many columns wide, and its style. It differs from an absent cell."""
        if not self.few:
            return "█" * width, Style(color=Color.from_rgb(*colour(strength, on_light=self.on_light)))
        if abs(strength) < FAINT:
            return "·" * width, Style(dim=True)
        return "█" * width, Style(color=Color.from_ansi(self._step(strength)))

    def _step(self, strength: float) -> int:
        steps = (_FEW_ON_LIGHT if self.on_light else _FEW_ON_DARK)[strength < 0]
        bounds = [(place + 1) / len(steps) for place in range(len(steps) - 1)]
        return steps[bisect_right(bounds, abs(strength))]


def palette_of(console: Console) -> Palette:
    """Return the palette of a console with colours."""
    few = console.color_system not in ("256", "truecolor")
    return Palette(few, is_light())


def is_light() -> bool:
    """Return whether the terminal says that its background is light; without a word of it, it is dark."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT
