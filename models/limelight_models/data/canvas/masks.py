"""Pictures to be segmented: for each cell, which digit its ink is of, or that it is ground. Clutter is ground.

A cell is of the digit that has most of its pixels, where that is at least a third of them. The right place to look at
is where digits are. With a cue, a digit in the upper left corner says which of the others is a digit here: the rest is
ground, the cue as well, so that no cell can be told by itself.
"""

import random

import numpy as np

from limelight_bundle.values import Array
from limelight_models.data.canvas.world import DIGITS, SIZE, Digit, Hand, Plan, Scene, hands, paint, plan, size
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Box, Gold
from limelight_models.data.images import png

GROUND = "ground"
DIGIT = "digit"
CELL = 2
_SHARE = 1 / 3
_CUE = 12  # pixels on a side of the corner that a cue fills
_CUES = 3  # different ones


def dataset(
    *,
    seed: int = 0,
    training: int = 4_000,
    held_out: int = 500,
    digits: tuple[int, int] = DIGITS,
    named: bool = False,
    cued: bool = False,
    cell: int = CELL,
) -> Dataset:
    """Make `training` + 2 × `held_out` pictures and the classes of their cells, row by row; the seed decides all of it.

    named: whether each digit is a class of its own, or all of them are one. cued: whether only the one counts that a
    corner shows; then digits are zeros, ones and twos. cell: pixels on a side.
    Raises: ValueError where cells do not fill a picture.
    """
    if SIZE % cell:
        raise ValueError(f"cells of {cell} pixels do not fill {SIZE} x {SIZE}")
    chance = random.Random(f"{'cued ' if cued else ''}masks/{seed}")
    parts = zip(hands(), (training, held_out, held_out), strict=True)
    train, dev, test = (
        tuple(example(hand, chance, digits, named=named, cued=cued, cell=cell) for _ in range(count))
        for hand, count in parts
    )
    which = f"{digits[0]} to {digits[1]} digits" + (", of which a corner shows the one that counts," if cued else "")
    return Dataset(
        name=f"Handwritten digits on a canvas: {'cued ' if cued else ''}masks",
        licence="CC-BY-4.0 (the digits)",
        summary=f"Pictures of {which} and the classes of their cells, from seed {seed}.",
        train=train,
        dev=dev,
        test=test,
    )


def example(
    hand: Hand, chance: random.Random, digits: tuple[int, int], *, named: bool, cued: bool, cell: int
) -> Example:
    """A picture and the classes of its cells."""
    made = paint(with_cue(hand, chance, digits) if cued else plan(hand, chance, digits=digits), hand, chance)
    counting = made.digits[1:2] if cued else made.digits
    names = [(each.word if named else DIGIT) if each in counting else GROUND for each in made.digits]
    labels = tuple([*names, GROUND][number] for number in owners(made, cell).ravel().tolist())
    return Example({"image": png(made.pixels)}, labels=labels, gold=(Gold(tuple(each.box for each in counting)),))


def with_cue(hand: Hand, chance: random.Random, digits: tuple[int, int]) -> Plan:
    """Digits, and before them the value of the first once more, in the corner, by any hand."""
    planned = plan(Hand(hand.samples[:_CUES]), chance, digits=digits, free=[Box("image", 0, 0, _CUE, _CUE)])
    value = planned.digits[0].value
    sample = chance.choice(hand.samples[value])
    width, height = size(sample, chance, (_CUE - 1, _CUE - 1))
    cue = Digit(value, Box("image", 1, 1, 1 + min(width, height), 1 + height))
    return Plan((cue, *planned.digits), (sample, *planned.samples))


def owners(made: Scene, cell: int) -> Array:
    """Which digit each cell is of, -1 for none: int64 [row, column] of cells."""
    count = SIZE // cell
    cells = made.ink.reshape(count, cell, count, cell)
    shares = np.stack([(cells == number).mean((1, 3)) for number in range(len(made.digits))])
    found: Array = np.where(shares.max(0) >= _SHARE, shares.argmax(0), -1)
    return found
