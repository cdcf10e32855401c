"""Colours of strengths: green, and red for negative values. A stronger colour is further from the background."""

import os
from typing import TypeAlias

import numpy as np

from limelight.scale import FAINT as FAINT

Colour: TypeAlias = tuple[int, int, int]

_ON_DARK = (
    np.array([[18, 38, 28], [24, 92, 62], [66, 158, 62], [160, 216, 54], [222, 255, 82]], float),
    np.array([[38, 18, 22], [110, 26, 36], [184, 44, 48], [232, 92, 70], [255, 160, 120]], float),
)
_ON_LIGHT = (
    np.array([[240, 248, 236], [190, 228, 170], [112, 190, 110], [34, 132, 84], [8, 74, 56]], float),
    np.array([[252, 240, 236], [250, 196, 176], [238, 124, 100], [196, 48, 52], [112, 10, 34]], float),
)
# Light among the sixteen colours that a terminal numbers.
_LIGHT = {"7", "9", "10", "11", "12", "13", "14", "15"}


def colour(strength: float, *, on_light: bool = False) -> Colour:
    """Return the colour of a strength from -1 to 1, for a dark or a light background."""
    stops = (_ON_LIGHT if on_light else _ON_DARK)[strength < 0]
    place = min(abs(strength), 1.0) * (len(stops) - 1)
    red, green, blue = (np.interp(place, range(len(stops)), stops[:, channel]) for channel in range(3))
    return round(red), round(green), round(blue)


def text_colour(background: Colour) -> Colour:
    """Return black or white, whichever is more legible on a background."""
    red, green, blue = background
    return (0, 0, 0) if 0.299 * red + 0.587 * green + 0.114 * blue > 110 else (255, 255, 255)


def is_light() -> bool:
    """Return whether the terminal says that its background is light; without a word of it, it is dark."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT
