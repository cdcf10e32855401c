"""Digits as a pen draws them: curves through a unit square, in the ways that people write them, bent by chance.

No data set is behind them: the shapes are those of schoolbooks, of both sides of the Atlantic.
"""

import math
import random

import numpy as np

from limelight_bundle.values import Array

Stroke = list[tuple[float, float]]  # points (x, y) from the upper left corner
_ANGLE = 12  # degrees from one point of a curve to the next, at most about
_BEND = 0.07  # of the square
_PARTS = 0.05


def strokes(digit: int, chance: random.Random) -> list[Stroke]:
    """A digit in one of the ways to write it, its parts a little larger, smaller or elsewhere; then leant and bent."""
    drawn = _ways(digit, chance)
    lean, turn = chance.uniform(-0.3, 0.3), math.radians(chance.uniform(-12, 12))
    waves = [(chance.uniform(-_BEND, _BEND), chance.uniform(0.5, 1.2), chance.uniform(0, 6.3)) for _ in range(4)]

    def moved(x: float, y: float) -> tuple[float, float]:
        x, y = x - 0.5, y - 0.5
        x += lean * y + sum(a * math.sin(math.pi * f * y + p) for a, f, p in waves[:2])
        y += sum(a * math.sin(math.pi * f * x + p) for a, f, p in waves[2:])
        return x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)

    return [[moved(x, y) for x, y in stroke] for stroke in drawn]


def ink(drawn: list[Stroke], width: int, height: int, thickness: float) -> Array:
    """Draw strokes so that they fill a picture of this size: float [row, column], 0 paper, 1 ink.

    thickness: of the pen, in pixels.
    """
    points = np.array([point for stroke in drawn for point in stroke])
    low, high = points.min(0), points.max(0)
    room = np.array([max(1.0, width - thickness - 0.5), max(1.0, height - thickness - 0.5)])
    scale = room / np.maximum(high - low, 0.05)
    inside = [(np.array(stroke) - (low + high) / 2) * scale + np.array([width, height]) / 2 for stroke in drawn]
    starts = np.concatenate([stroke[:-1] for stroke in inside])
    ways = np.concatenate([np.diff(stroke, axis=0) for stroke in inside])
    rows, columns = np.mgrid[:height, :width] + 0.5
    pixels = np.stack([columns.ravel(), rows.ravel()], -1)[:, None]  # [pixel, 1, 2]
    along = ((pixels - starts) * ways).sum(-1) / np.maximum((ways**2).sum(-1), 1e-9)
    nearest = starts + np.clip(along, 0, 1)[..., None] * ways
    distance = np.sqrt(((pixels - nearest) ** 2).sum(-1)).min(1)
    drawn_ink: Array = np.clip(thickness / 2 - distance + 0.5, 0, 1).reshape(height, width)
    return drawn_ink


def _ways(digit: int, chance: random.Random) -> list[Stroke]:
    """The strokes of a digit, upright."""

    def near(value: float) -> float:
        return value + chance.uniform(-_PARTS, _PARTS)

    def arc(x: float, y: float, across: float, down: float, begin: float, end: float) -> Stroke:
        """Part of an ellipse, by angles: 0 right, 90 below."""
        x, y, across, down = near(x), near(y), near(across), near(down)
        begin, end = begin + chance.uniform(-15, 15), end + chance.uniform(-15, 15)
        count = max(2, round(abs(end - begin) / _ANGLE))
        angles = [math.radians(begin + (end - begin) * n / count) for n in range(count + 1)]
        return [(x + across * math.cos(angle), y + down * math.sin(angle)) for angle in angles]

    def line(*points: tuple[float, float]) -> Stroke:
        return [(near(x), near(y)) for x, y in points]

    one_in = chance.random()
    match digit:
        case 0:
            return [arc(0.5, 0.5, chance.uniform(0.22, 0.42), 0.48, -100, 262)]
        case 1:
            if one_in < 0.45:
                return [line((0.5, 0.0), (0.5, 1.0))]
            foot = [line((0.25, 1.0), (0.75, 1.0))] if one_in > 0.8 else []
            return [line((chance.uniform(0.2, 0.38), chance.uniform(0.15, 0.35)), (0.52, 0.0), (0.52, 1.0)), *foot]
        case 2:
            top = arc(0.48, 0.28, 0.32, 0.27, -175, 35)
            if one_in < 0.3:  # with a loop
                loop = arc(0.22, 0.87, 0.12, 0.1, 60, 300)
                return [[*top, *line((0.35, 0.85)), *loop, *line((0.5, 0.9), (0.92, 0.97))]]
            return [[*top, *line((0.14, 0.96), (0.5, 0.95), (0.9, 0.96))]]
        case 3:
            low = arc(0.45, 0.73, 0.35, 0.26, -90, 150)
            if one_in < 0.2:
                return [[*line((0.15, 0.03), (0.8, 0.03), (0.45, 0.42)), *low]]
            return [[*arc(0.43, 0.26, 0.3, 0.24, -160, 80), *low]]
        case 4:
            if one_in < 0.35:
                return [line((0.68, 1.0), (0.66, 0.0), (0.1, 0.66), (0.92, 0.66))]
            left = line((0.22, 0.02), (0.14, 0.55), (0.9, 0.52))
            return [left, line((0.7, chance.uniform(0.0, 0.35)), (0.66, 1.0))]
        case 5:
            bowl = arc(0.45, 0.67, 0.36, 0.3, -125, 150)
            if one_in < 0.5:
                return [[*line((0.28, 0.05), (0.22, 0.45)), *bowl], line((0.28, 0.04), (0.85, 0.03))]
            return [[*line((0.82, 0.03), (0.26, 0.04), (0.2, 0.45)), *bowl]]
        case 6:
            down = line((chance.uniform(0.45, 0.8), 0.0), (0.36, 0.25), (0.2, 0.55))
            return [[*down, *arc(0.48, 0.73, 0.3, 0.26, -175, 190)]]
        case 7:
            head = line((0.1, 0.2), (0.12, 0.04)) if one_in < 0.2 else []
            body = [*head, *line((0.12, 0.04), (0.86, 0.05), (chance.uniform(0.3, 0.6), 1.0))]
            return [body, line((0.3, 0.5), (0.78, 0.48))] if one_in > 0.7 else [body]
        case 8:
            if one_in < 0.5:  # one line that crosses itself
                first = arc(0.5, 0.26, 0.26, 0.23, -40, -260)
                return [[*first, *arc(0.5, 0.75, 0.3, 0.24, -50, 215), *line((0.72, 0.14))]]
            return [arc(0.5, 0.25, 0.25, 0.23, 0, 360), arc(0.5, 0.75, 0.3, 0.24, 0, 360)]
        case 9:
            loop = arc(0.47, 0.27, 0.28, 0.25, -15, -375)
            if one_in < 0.6:
                return [[*loop, *line((0.76, 0.3), (chance.uniform(0.55, 0.78), 1.0))]]
            return [[*loop, *line((0.76, 0.3), (0.74, 0.7)), *arc(0.48, 0.76, 0.26, 0.21, 0, 140)]]
    raise ValueError(f"{digit} is no digit")
