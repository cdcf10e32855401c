"""The colours of strengths, which the page, notebooks, terminals and pictures share: blue, and orange below zero.

Each ramp changes its lightness evenly, and blue and orange differ for every kind of colour vision. The page gets these
numbers as a module of its own (`limelight.view.files`).
"""

from typing import TypeAlias

import numpy as np

Colour: TypeAlias = tuple[int, int, int]

# Colours of strengths 0, 1/4 … 1, above and below zero; the first is the page's background.
RAMPS: dict[str, tuple[tuple[Colour, ...], tuple[Colour, ...]]] = {
    "light": (
        ((255, 255, 255), (214, 229, 247), (138, 180, 227), (52, 111, 188), (9, 45, 104)),
        ((255, 255, 255), (253, 227, 201), (243, 176, 113), (209, 105, 28), (115, 48, 0)),
    ),
    "dark": (
        ((24, 28, 36), (30, 62, 105), (49, 117, 180), (112, 189, 230), (228, 246, 255)),
        ((24, 28, 36), (90, 46, 16), (170, 88, 24), (236, 150, 76), (255, 224, 186)),
    ),
}
# Above and below zero where they are translucent: over pictures, and over notebooks of any background.
OVER: tuple[Colour, Colour] = ((10, 132, 255), (255, 122, 0))
# Opacity over a picture of the least strength that is drawn, and of the largest, under which the picture is still seen.
OPACITIES = (0.12, 0.66)
# Frame of what is pinned or pointed at.
MARK = "#ff2d95"


def colour(strength: float, *, on_light: bool = False) -> Colour:
    """Return the colour of a strength from -1 to 1, for a dark or a light background."""
    stops = np.array(RAMPS["light" if on_light else "dark"][int(strength < 0)], float)
    place = min(abs(strength), 1.0) * (len(stops) - 1)
    red, green, blue = (np.interp(place, range(len(stops)), stops[:, channel]) for channel in range(3))
    return round(red), round(green), round(blue)


def text_colour(background: Colour) -> Colour:
    """Return black or white, whichever is more legible on a background."""
    red, green, blue = background
    return (0, 0, 0) if 0.299 * red + 0.587 * green + 0.114 * blue > 110 else (255, 255, 255)
