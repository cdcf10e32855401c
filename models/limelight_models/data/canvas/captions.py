"""Pictures with a sentence that describes them: "a three left of a seven above a two".

All digits are named, from left to right, each with how it stands to the next. Pictures that could be described in
another way are not taken. The right place to look at, for the name of a digit, is the digit.
"""

import random
from collections.abc import Sequence
from itertools import pairwise

from limelight_bundle.values import Text
from limelight_models.data.canvas.relations import clear
from limelight_models.data.canvas.world import DIGITS, Digit, Hand, hands, paint, plan
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, word_spans
from limelight_models.data.images import png

_WAYS = ("left of", "above", "below")
_ORDERED = 3  # pixels from one digit to the next on its right, at least


def dataset(
    *, seed: int = 0, training: int = 20_000, held_out: int = 1_000, digits: tuple[int, int] = DIGITS
) -> Dataset:
    """Make `training` + 2 × `held_out` pictures of so many digits; the seed decides all of it."""
    chance = random.Random(f"captions/{seed}")
    parts = zip(hands(), (training, held_out, held_out), strict=True)
    train, dev, test = (tuple(example(hand, chance, digits) for _ in range(count)) for hand, count in parts)
    return Dataset(
        name="Handwritten digits on a canvas: captions",
        licence="CC-BY-4.0 (the digits)",
        summary=f"Pictures of {digits[0]} to {digits[1]} digits among clutter, generated from seed {seed}.",
        train=train,
        dev=dev,
        test=test,
    )


def example(hand: Hand, chance: random.Random, digits: tuple[int, int]) -> Example:
    """A picture, its caption, and where the digit of each name is."""
    while True:
        planned = plan(hand, chance, digits=digits)
        ordered = sorted(planned.digits, key=lambda each: each.centre)
        text = caption(ordered)
        if text is not None:
            break
    places = {each.word: each.box for each in ordered}
    gold = tuple(
        Gold((places[text[word.start : word.end]],), of=word)
        for word in word_spans("target", text)
        if text[word.start : word.end] in places
    )
    return Example({"image": png(paint(planned, hand, chance).pixels), "target": Text(text)}, gold=gold)


def caption(ordered: Sequence[Digit]) -> str | None:
    """Name digits, and how each stands to the next; None where that is not clear."""
    text = ordered[0].named
    for one, other in pairwise(ordered):
        way = next((way for way in _WAYS if clear(one, other, way)), None)
        if way is None or other.centre[0] - one.centre[0] < _ORDERED:
            return None
        text += f" {way} {other.named}"
    return text
