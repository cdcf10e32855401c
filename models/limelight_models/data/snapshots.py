"""Pictures of one digit as strangers send them: written by hand or printed, small or large, somewhere, on anything.

Digits are scikit-learn's handwritten ones, drawn by a pen (`strokes`), or printed in the type that Pillow has with it.
Grounds are plain, shaded, noisy, ruled, or with bits of other things at the edge; light on dark or dark on light.
No handwritten digit is in two parts. The right place to look is the box of the digit's ink.
"""

import random
from functools import cache

import numpy as np
from PIL import Image as Picture
from PIL import ImageDraw, ImageFilter, ImageFont

from limelight_bundle.values import Array
from limelight_models.data.canvas.world import Hand, hands, size, stamp
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Box, Gold
from limelight_models.data.images import png
from limelight_models.data.strokes import ink, strokes

SIZE = 32
_HEIGHTS = (13, 30)
_SOURCES = {"pen": 60, "hand": 28, "print": 12}
_DARKEST = 0.35  # how much darker or lighter ink is than its ground, at least
_PRINTED = 64  # pixels of printed digits before they are made smaller


def dataset(*, seed: int = 0, training: int = 24_000, held_out: int = 1_000) -> Dataset:
    """Make `training` + 2 × `held_out` pictures; the seed decides all of it."""
    chance = random.Random(f"snapshots/{seed}")
    parts = zip(hands(), (training, held_out, held_out), strict=True)
    train, dev, test = (tuple(example(hand, chance) for _ in range(count)) for hand, count in parts)
    return Dataset(
        name="Digits, written and printed",
        licence="CC-BY-4.0 (the handwritten digits)",
        summary=(
            "scikit-learn's handwritten digits, digits drawn by a pen, printed ones; generated from seed"
            f" {seed}. The right place is the box around the digit."
        ),
        train=train,
        dev=dev,
        test=test,
        shown=(test[0].instance,),  # one: of maps of so many cells, a server's samples are as large as the model
        does="Reads the digit in a picture: the classes are 0 to 9.",
        inputs={
            "image": (
                "One digit, handwritten or printed, dark on light or light on dark, upright, filling two fifths of the"
                " picture's height or more: a screenshot, a drawing, a photo of paper. Any size; about square is best."
            )
        },
    )


def example(hand: Hand, chance: random.Random) -> Example:
    """A picture of a digit, and where it is."""
    digit = chance.randrange(10)
    drawn = drawing(digit, hand, chance)
    height, width = drawn.shape
    left, top = (_somewhere(SIZE - length, chance) for length in (width, height))
    whole = np.zeros((SIZE, SIZE))
    litter(whole, chance)
    whole[max(0, top - 1) : top + height + 1, max(0, left - 1) : left + width + 1] = 0  # nothing touches the digit
    whole[top : top + height, left : left + width] = drawn
    box = Box("image", left, top, left + width, top + height)
    return Example({"image": png(on_a_ground(whole, chance))}, str(digit), gold=(Gold((box,)),))


def drawing(digit: int, hand: Hand, chance: random.Random) -> Array:
    """A digit that fills its box: float [row, column], 0 ground, 1 ink."""
    source = chance.choices(list(_SOURCES), list(_SOURCES.values()))[0]
    height = chance.randint(*_HEIGHTS)
    if source == "hand":
        sample = chance.choice(hand.samples[digit])
        width, height = size(sample, chance, (height, height))
        return stamp(sample, chance, min(width, SIZE), height) / 255
    if source == "print":
        letter = printed(digit)
        width = max(3, round(height * letter.width / letter.height * chance.uniform(0.8, 1.25)))
        return np.asarray(letter.resize((min(width, SIZE), height), Picture.Resampling.BOX)) / 255
    narrow = 0.15 if digit == 1 else 0.45
    width = max(4, min(SIZE, round(height * chance.uniform(narrow, 1.05 if digit != 1 else 0.5))))
    return ink(strokes(digit, chance), width, height, max(1.2, height * chance.uniform(0.06, 0.2)))


@cache
def printed(digit: int) -> Picture.Image:
    """A printed digit, cut to its ink."""
    font = ImageFont.load_default(_PRINTED)
    picture = Picture.new("L", (2 * _PRINTED, 2 * _PRINTED))
    ImageDraw.Draw(picture).text((_PRINTED // 2, _PRINTED // 4), str(digit), fill=255, font=font)
    return picture.crop(picture.getbbox())


def _somewhere(room: int, chance: random.Random) -> int:
    """Near the middle more often than not."""
    middle = chance.gauss(room / 2, room / 6) if chance.random() < 0.6 else chance.uniform(0, room)
    return min(max(0, round(middle)), room)


def litter(whole: Array, chance: random.Random) -> None:
    """Rules of paper, and bits of strokes at the edge."""
    if chance.random() < 0.12:
        apart, first = chance.randint(7, 14), chance.randint(0, 6)
        rules = whole if chance.random() < 0.7 else whole.T
        rules[first::apart] = chance.uniform(0.1, 0.45)
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 3))):
        length, thick = chance.randint(2, 8), chance.randint(1, 3)
        edge, place = chance.choice((0, SIZE - thick)), chance.randint(0, SIZE - length)
        bits = whole if chance.random() < 0.5 else whole.T
        bits[edge : edge + thick, place : place + length] = chance.uniform(0.4, 1)


def on_a_ground(whole: Array, chance: random.Random) -> Array:
    """From ink to pixels: contrast, shading, blur, noise, one way round or the other."""
    noise = np.random.Generator(np.random.PCG64(chance.getrandbits(64)))
    contrast = chance.uniform(_DARKEST, 1)
    ground = chance.uniform(0, 1 - contrast)
    rows, columns = np.mgrid[:SIZE, :SIZE] / SIZE - 0.5
    slope = chance.uniform(-1, 1) * rows + chance.uniform(-1, 1) * columns
    shade = chance.choice((0, 0, 0.2, 0.4)) * contrast * slope
    pixels = ground + shade + whole * contrast + noise.normal(0, chance.choice((0, 0.01, 0.05)), whole.shape)
    if chance.random() < 0.5:
        pixels = 1 - pixels
    found = Picture.fromarray((np.clip(pixels, 0, 1) * 255).astype(np.uint8))
    if chance.random() < 0.4:
        found = found.filter(ImageFilter.GaussianBlur(chance.uniform(0.3, 0.9)))
    return np.asarray(found)
