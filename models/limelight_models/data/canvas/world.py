"""Pictures of different digits among clutter, each digit's place known.

The digits are scikit-learn's, by 43 people; no handwritten digit is in two parts of a data set. Each is drawn thin or
thick, upright or leaning, small or large; clutter is bits of other digits (Mnih et al. 2014); half of the pictures are
dark on light. All of it is in whole numbers, from one seed: the same pixels on every machine.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from PIL import Image as Picture
from PIL import ImageFilter

from limelight_bundle.values import Array
from limelight_models.data.gold import Box

SIZE = 48
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
DIGITS = (2, 5)
_HEIGHTS = (11, 16)
_APART = 2  # pixels between two digits, at least
_CLUTTER = (3, 8)
_BIT = (3, 6)
_NARROWEST = 4
_TRIES = 40
_INK = 64  # what is lighter is ink
_LARGE = 32  # digits are thickened and leant at this size, then drawn smaller
_ROOM = 8
_WHOLE = (10, 14)  # width and height of the digits that clutter is cut from
_THICKNESS = (ImageFilter.MinFilter(3), None, None, ImageFilter.MaxFilter(3))


def with_article(word: str) -> str:
    """A three, an eight."""
    return f"{'an' if word == 'eight' else 'a'} {word}"


@dataclass(frozen=True)
class Digit:
    """A digit in a picture: its value, and the box of its ink."""

    value: int
    box: Box

    @property
    def word(self) -> str:
        """Its name."""
        return WORDS[self.value]

    @property
    def named(self) -> str:
        """Its name with an article."""
        return with_article(self.word)

    @property
    def centre(self) -> tuple[float, float]:
        """Column and row of its middle."""
        return (self.box.left + self.box.right) / 2, (self.box.top + self.box.bottom) / 2


@dataclass(frozen=True)
class Scene:
    """pixels: uint8 [row, column], 0 black. ink: which digit a pixel is of, int8 of the same, -1 for none."""

    pixels: Array
    ink: Array
    digits: tuple[Digit, ...]


@dataclass(frozen=True)
class Sample:
    """One handwritten digit: uint8 [row, column], light on dark, and how wide its ink is for its height."""

    pixels: Array
    aspect: float


@dataclass(frozen=True)
class Hand:
    """Handwritten digits to draw with, those of each value."""

    samples: tuple[tuple[Sample, ...], ...]


@dataclass(frozen=True)
class Plan:
    """Which digits are to be drawn, and where."""

    digits: tuple[Digit, ...]
    samples: tuple[Sample, ...]


@cache
def hands() -> tuple[Hand, Hand, Hand]:
    """Digits for training, for choosing and held out: 80, 10 and 10 of a hundred, always the same."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    pixels = np.minimum(loaded.images.astype(np.int64) * 16, 255).astype(np.uint8)
    parts: tuple[list[tuple[Sample, ...]], ...] = ([], [], [])
    for value in range(len(WORDS)):
        own = [_sample(image) for image, label in zip(pixels, loaded.target.tolist(), strict=True) if label == value]
        random.Random(value).shuffle(own)
        tenth = len(own) // 10
        for part, samples in zip(parts, (own[2 * tenth :], own[:tenth], own[tenth : 2 * tenth]), strict=True):
            part.append(tuple(samples))
    train, dev, test = (Hand(tuple(part)) for part in parts)
    return train, dev, test


def _sample(pixels: Array) -> Sample:
    rows, columns = _cut(pixels).shape
    return Sample(pixels, columns / rows)


def plan(hand: Hand, chance: random.Random, *, digits: tuple[int, int] = DIGITS, free: Sequence[Box] = ()) -> Plan:
    """So many digits as `digits` allows, all of different values, none of which touch; none in the boxes of `free`."""
    while True:
        values = chance.sample(range(len(hand.samples)), chance.randint(*digits))
        samples = tuple(chance.choice(hand.samples[value]) for value in values)
        boxes = spread([size(each, chance) for each in samples], chance, free)
        if boxes is not None:
            return Plan(tuple(map(Digit, values, boxes)), samples)


def size(sample: Sample, chance: random.Random, heights: tuple[int, int] = _HEIGHTS) -> tuple[int, int]:
    """Width and height of a digit as it is drawn."""
    height = chance.randint(*heights)
    return max(_NARROWEST, round(sample.aspect * height)), height


def spread(sizes: Sequence[tuple[int, int]], chance: random.Random, free: Sequence[Box] = ()) -> list[Box] | None:
    """Boxes of these sizes that touch neither each other nor those of `free`; None where chance found none."""
    taken = list(free)
    for width, height in sizes:
        for _ in range(_TRIES):
            left, top = chance.randint(1, SIZE - width - 1), chance.randint(1, SIZE - height - 1)
            box = Box("image", left, top, left + width, top + height)
            if not any(touch(box, other, _APART) for other in taken):
                taken.append(box)
                break
        else:
            return None
    return taken[len(free) :]


def touch(one: Box, other: Box, apart: float) -> bool:
    """Tell whether two boxes are nearer to each other than so many pixels."""
    beside = one.right + apart <= other.left or other.right + apart <= one.left
    over = one.bottom + apart <= other.top or other.bottom + apart <= one.top
    return not (beside or over)


def paint(planned: Plan, hand: Hand, chance: random.Random) -> Scene:
    """Draw what is planned, with clutter between."""
    light = np.zeros((SIZE, SIZE), np.int64)
    ink = np.full((SIZE, SIZE), -1, np.int8)
    for number, (digit, sample) in enumerate(zip(planned.digits, planned.samples, strict=True)):
        left, top, right, bottom = map(int, (digit.box.left, digit.box.top, digit.box.right, digit.box.bottom))
        drawn = stamp(sample, chance, right - left, bottom - top)
        light[top:bottom, left:right] = drawn
        ink[top:bottom, left:right][drawn > _INK] = number
    _clutter(light, hand, planned.digits, chance)
    return Scene(shades(light, chance), ink, planned.digits)


def stamp(sample: Sample, chance: random.Random, width: int, height: int) -> Array:
    """A handwritten digit, thick or thin, leaning or not, its ink filling this size: int64 [row, column]."""
    large = Picture.fromarray(sample.pixels).resize((_LARGE, _LARGE), Picture.Resampling.BICUBIC)
    thickness = chance.choice(_THICKNESS)
    pixels = np.asarray(large if thickness is None else large.filter(thickness)).astype(np.int64)
    pixels = _cut(_lean(np.clip((pixels - 40) * 3 // 2, 0, 255), chance.randint(-3, 3)))
    small = Picture.fromarray(pixels.astype(np.uint8)).resize((width, height), Picture.Resampling.BOX)
    return np.asarray(small).astype(np.int64)


def _lean(pixels: Array, by: int) -> Array:
    """Move each row sideways, by so many eighths of a pixel for each row from the middle."""
    rows = np.arange(_LARGE)[:, None]
    columns = np.arange(_LARGE + 2 * _ROOM)[None] - _ROOM - by * (rows - _LARGE // 2) // 8
    inside = (columns >= 0) & (columns < _LARGE)
    leaning: Array = np.where(inside, pixels[rows, np.clip(columns, 0, _LARGE - 1)], 0)
    return leaning


def _cut(pixels: Array) -> Array:
    """The rows and columns that hold ink."""
    rows, columns = np.nonzero((pixels > _INK).any(1))[0], np.nonzero((pixels > _INK).any(0))[0]
    return pixels[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _clutter(light: Array, hand: Hand, digits: Sequence[Digit], chance: random.Random) -> None:
    """Add bits of other digits where there is none."""
    for _ in range(chance.randint(*_CLUTTER)):
        width, height = chance.randint(*_BIT), chance.randint(*_BIT)
        left, top = chance.randint(0, SIZE - width), chance.randint(0, SIZE - height)
        box = Box("image", left, top, left + width, top + height)
        if any(touch(box, each.box, 1) for each in digits):
            continue
        whole = stamp(chance.choice(hand.samples[chance.randrange(len(WORDS))]), chance, *_WHOLE)
        across, down = (chance.randint(0, full - part) for full, part in zip(_WHOLE, (width, height), strict=True))
        part = light[top : top + height, left : left + width]
        np.maximum(part, whole[down : down + height, across : across + width], out=part)


def shades(light: Array, chance: random.Random) -> Array:
    """From ink 0 to 255 to pixels: some contrast, some noise, light on dark or dark on light."""
    dark, bright = chance.randint(0, 40), chance.randint(170, 255)
    noise = np.random.Generator(np.random.PCG64(chance.getrandbits(64))).integers(-8, 9, light.shape)
    pixels = np.clip(dark + light * (bright - dark) // 255 + noise, 0, 255)
    return (255 - pixels if chance.random() < 0.5 else pixels).astype(np.uint8)
