"""Pictures as texts: a line a row, a character a pixel, to be written by what they show, or from their first rows."""

import random

import numpy as np

from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example, split

LEVELS = " .:-=+*#"  # from the ground to full ink
PROMPTED = "The class, and behind it some first rows of the picture or none: a line a row, a character a pixel."
_FROM_NOTHING = 0.5  # share of the pictures of which no row is given


def dataset(*, seed: int = 0) -> Dataset:
    """Read scikit-learn's 1,797 handwritten digits of 8 × 8 pixels, a tenth each to choose by and held out.

    What is given is a line that says the digit, and some rows of it. How many is drawn by the seed, and which pictures
    are held out.
    """
    from sklearn.datasets import load_digits

    chance, loaded, examples = random.Random(f"pixels/{seed}"), load_digits(), list[Example]()
    pictures = np.rint(loaded.images * ((len(LEVELS) - 1) / 16)).astype(int)
    for picture, label in zip(pictures.tolist(), loaded.target.tolist(), strict=True):
        lines = [str(label), *("".join(LEVELS[level] for level in row) for row in picture)]
        given = 1 if chance.random() < _FROM_NOTHING else chance.randint(2, len(picture))
        prompt, target = ("\n".join(some) for some in (lines[:given], lines[given:]))
        examples.append(Example({"text": Text(prompt), "target": Text(target)}))
    dev, test, train = split(examples, seed, 0.1, 0.1)
    return Dataset(
        name="Handwritten digits, pixel by pixel",
        licence="CC-BY-4.0",
        summary=f"scikit-learn's load_digits, 8 x 8 pixels as characters of {LEVELS!r}, a line a row, behind a line "
        "that says the digit; of half of the pictures 1 to 7 rows are given. Writers are on all sides.",
        train=train,
        dev=dev,
        test=test,
    )
