"""Pictures of digits as strangers send them, and pictures that hold no digit: blank, noisy, of letters, of shapes.

Thin pens, thick ones, digits in a corner or small ones stand beside what `snapshots` draws. A picture of two digits
side by side holds no one digit. Letters and shapes that could be read as a digit (O, l, S, a circle, an upright line)
are left out.
"""

import math
import random
from dataclasses import replace

import numpy as np
from PIL import Image as Picture
from PIL import ImageDraw, ImageFilter, ImageFont

from limelight_bundle.values import Array
from limelight_models.data import snapshots
from limelight_models.data.canvas.world import Hand, hands
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.demo.mixed import mixed
from limelight_models.data.gold import Box, Gold
from limelight_models.data.images import png
from limelight_models.data.snapshots import SIZE, drawing, litter, on_a_ground, printed
from limelight_models.data.strokes import ink, strokes

NONE = "none"
_LETTERS = "ACEFHKMNPRTUVWXYadefhkmnprtuvwxyÄÉÑß?!#&@%+=*$"
_LARGE = 4  # times as large as the picture are shapes and letters before they are made smaller


def dataset(*, seed: int = 0, training: int = 17_000, more: int = 7_500, held_out: int = 1_000) -> Dataset:
    """Make pictures, and of what strangers send so many more to learn from; the seed decides all of it."""
    base = snapshots.dataset(seed=seed, training=training, held_out=held_out)
    chance = random.Random(f"demo-digits/{seed}")
    counts = (more, held_out // 3, held_out // 3)
    added = [[example(hand, chance) for _ in range(count)] for hand, count in zip(hands(), counts, strict=True)]
    made = mixed(base, added, seed=seed)
    return replace(
        made,
        name="Digits, written and printed, and pictures of none",
        summary=f"{base.summary} Blank and noisy pictures, letters, shapes and pairs of digits are called {NONE!r}.",
        does=f"Reads the digit in a picture: the classes are 0 to 9, and {NONE!r} where it shows no digit, or several.",
    )


def example(hand: Hand, chance: random.Random) -> Example:
    """A picture without a digit, or one that is thin, thick, small or in a corner."""
    if chance.random() < 0.5:
        return Example({"image": png(empty(hand, chance))}, NONE)
    digit = chance.randrange(10)
    if chance.random() < 0.65:
        height = chance.randint(12, 30)
        wide = chance.uniform(0.12, 0.5) if digit == 1 else chance.uniform(0.45, 1.0)
        width = max(4, min(SIZE, round(height * wide)))
        thin = chance.random() < 0.5
        thickness = chance.uniform(0.6, 1.4) if thin else height * chance.uniform(0.16, 0.26)
        drawn = ink(strokes(digit, chance), width, height, thickness)
        drawn = drawn / max(0.2, float(drawn.max()))
    else:
        drawn = drawing(digit, hand, chance)
    height, width = drawn.shape
    left, top = (_at_a_side(SIZE - length, chance) for length in (width, height))
    whole = np.zeros((SIZE, SIZE))
    whole[top : top + height, left : left + width] = drawn
    box = Box("image", left, top, left + width, top + height)
    return Example({"image": png(on_a_ground(whole, chance))}, str(digit), gold=(Gold((box,)),))


def _at_a_side(room: int, chance: random.Random) -> int:
    """Near one of the edges as often as anywhere."""
    return chance.choice(
        (chance.randint(0, min(2, room)), room - chance.randint(0, min(2, room)), chance.randint(0, room))
    )


def empty(hand: Hand, chance: random.Random) -> Array:
    """A picture without a digit: uint8 [row, column]."""
    match chance.choices(range(6), (30, 12, 8, 20, 18, 12))[0]:
        case 0:
            return _blank(chance)
        case 1:
            return _noise(chance)
        case 2:
            whole = np.zeros((SIZE, SIZE))
            for _ in range(chance.randint(1, 3)):
                litter(whole, chance)
            return on_a_ground(whole, chance)
        case 3:
            return on_a_ground(_drawn(chance, _letter), chance)
        case 4:
            return on_a_ground(_drawn(chance, _shape), chance)
    return on_a_ground(_several(hand, chance), chance)


def _blank(chance: random.Random) -> Array:
    """One shade, or one that becomes another from side to side, with the least of noise or none."""
    noise = np.random.Generator(np.random.PCG64(chance.getrandbits(64)))
    level = chance.choice((0.0, 1.0, 0.5, chance.random()))
    rows, columns = np.mgrid[:SIZE, :SIZE] / SIZE - 0.5
    angle, steep = chance.uniform(0, 2 * math.pi), chance.choice((0, 0, 0.1, 0.4, 1.0))
    pixels = level + steep * (math.cos(angle) * rows + math.sin(angle) * columns)
    if steep and chance.random() < 0.3:  # an edge between two shades
        pixels = np.where(pixels > level + chance.uniform(-0.1, 0.1), level + 0.3, level - 0.3)
    pixels = pixels + noise.normal(0, chance.choice((0, 0, 0.004, 0.02)), (SIZE, SIZE))
    return (np.clip(pixels, 0, 1) * 255).astype(np.uint8)


def _noise(chance: random.Random) -> Array:
    """Noise without a digit, fine or coarse."""
    noise = np.random.Generator(np.random.PCG64(chance.getrandbits(64)))
    side = chance.choice((SIZE, SIZE, SIZE // 2, SIZE // 4))
    pixels = (
        noise.random((side, side))
        if chance.random() < 0.5
        else noise.normal(0.5, chance.uniform(0.02, 0.4), (side, side))
    )
    found = Picture.fromarray((np.clip(pixels, 0, 1) * 255).astype(np.uint8)).resize(
        (SIZE, SIZE), chance.choice(_SMOOTH)
    )
    return np.asarray(found.filter(ImageFilter.GaussianBlur(0.8)) if chance.random() < 0.3 else found)


_SMOOTH = (Picture.Resampling.NEAREST, Picture.Resampling.BILINEAR, Picture.Resampling.BICUBIC)


def _drawn(chance: random.Random, draw: object) -> Array:
    """A function's drawing on a large picture, scaled down: float [row, column], 1 ink."""
    large = Picture.new("L", (_LARGE * SIZE, _LARGE * SIZE))
    assert callable(draw)
    draw(ImageDraw.Draw(large), _LARGE * SIZE, chance)
    return np.asarray(large.resize((SIZE, SIZE), Picture.Resampling.BOX)) / 255


def _letter(pen: ImageDraw.ImageDraw, side: int, chance: random.Random) -> None:
    """A letter or a mark, or several of them."""
    size = chance.randint(side // 3, side)
    text = chance.choice(_LETTERS)
    if chance.random() < 0.3:
        text, size = "".join(chance.choices(_LETTERS, k=chance.randint(2, 6))), chance.randint(side // 6, side // 2)
    place = (chance.randint(0, side // 3), chance.randint(-side // 8, side // 3))
    pen.text(place, text, fill=255, font=ImageFont.load_default(size))


def _shape(pen: ImageDraw.ImageDraw, side: int, chance: random.Random) -> None:
    """Boxes, triangles, crosses, dots, faces, level lines, scribbles."""
    width = chance.randint(side // 40, side // 10)
    left, top = chance.randint(0, side // 3), chance.randint(0, side // 3)
    across, down = chance.randint(side // 3, side - left - 1), chance.randint(side // 3, side - top - 1)
    right, bottom = left + across, top + down
    match chance.randrange(7):
        case 0:
            box = (left, top, right, bottom)
            if chance.random() < 0.5:
                pen.rectangle(box, outline=255, width=width)
            else:
                pen.rectangle(box, fill=255)
        case 1:
            corners = [((left + right) // 2, top), (right, bottom), (left, bottom)]
            pen.polygon(corners, outline=255, width=width, fill=chance.choice((None, 255)))
        case 2:
            pen.line((left, top, right, bottom), fill=255, width=width)
            pen.line((right, top, left, bottom), fill=255, width=width)
        case 3:
            for _ in range(chance.randint(1, 6)):
                x, y, r = chance.randint(0, side), chance.randint(0, side), chance.randint(side // 40, side // 14)
                pen.ellipse((x - r, y - r, x + r, y + r), fill=255)
        case 4:  # a face
            across = down = min(across, down)
            right, bottom, eye = left + across, top + down, max(2, across // 12)
            pen.ellipse((left, top, right, bottom), outline=255, width=width)
            for x in (left + across // 3, right - across // 3):
                pen.ellipse((x - eye, top + down // 3 - eye, x + eye, top + down // 3 + eye), fill=255)
            mouth = (left + across // 4, top + down // 4, right - across // 4, bottom - down // 5)
            pen.arc(mouth, 20, 160, fill=255, width=max(2, width // 2))
        case 5:
            for _ in range(chance.randint(1, 4)):
                y = chance.randint(0, side)
                pen.line((left, y, right, y + chance.randint(-side // 12, side // 12)), fill=255, width=width)
        case _:  # a line that goes to and fro
            points = [(chance.randint(0, side), chance.randint(0, side)) for _ in range(chance.randint(7, 14))]
            pen.line(points, fill=255, width=width, joint="curve")


def _several(hand: Hand, chance: random.Random) -> Array:
    """Two to four digits side by side, none of them much larger than the others."""
    count = chance.choice((2, 2, 3, 4))
    width, height = (SIZE - count) // count, chance.randint(10, 22)
    whole, top = np.zeros((SIZE, SIZE)), chance.randint(1, SIZE - height - 1)
    for place in range(count):
        digit = chance.randrange(10)
        if chance.random() < 0.5:
            letter = printed(digit)
            fits = max(3, min(width, round(height * letter.width / letter.height)))
            drawn = np.asarray(letter.resize((fits, height), Picture.Resampling.BOX)) / 255
        else:
            fits = max(3, min(width, round(height * (0.3 if digit == 1 else 0.6))))
            drawn = ink(strokes(digit, chance), fits, height, max(1.2, height * chance.uniform(0.06, 0.16)))
        left = place * (width + 1) + 1 + (width - fits) // 2
        whole[top : top + height, left : left + fits] = drawn
    return whole
