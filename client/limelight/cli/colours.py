"""Colour scale of relative weights: dark green to lime, and red for negative weights."""

from typing import TypeAlias

import numpy as np

Colour: TypeAlias = tuple[int, int, int]

# No shade below this weight: noise would shade every word.
FAINT = 0.02

_STOPS = np.array([[18, 38, 28], [24, 92, 62], [66, 158, 62], [160, 216, 54], [222, 255, 82]], float)
_NEGATIVE = np.array([[38, 18, 22], [110, 26, 36], [184, 44, 48], [232, 92, 70], [255, 160, 120]], float)


def colour(strength: float) -> Colour:
    """Return the colour of a relative weight from -1 to 1."""
    stops = _NEGATIVE if strength < 0 else _STOPS
    place = min(abs(strength), 1.0) * (len(stops) - 1)
    red, green, blue = (np.interp(place, range(len(stops)), stops[:, channel]) for channel in range(3))
    return round(red), round(green), round(blue)


def text_colour(background: Colour) -> Colour:
    """Return black or white, whichever is more legible on a background."""
    red, green, blue = background
    return (0, 0, 0) if 0.299 * red + 0.587 * green + 0.114 * blue > 110 else (255, 255, 255)
