"""Images that need no download: scikit-learn's handwritten digits (8 × 8, from 43 people)."""

import numpy as np

from limelight_models.data import drawings as drawn
from limelight_models.data.dataset import Dataset, Example, split
from limelight_models.data.images import png


def dataset(*, seed: int = 0) -> Dataset:
    """Read 1,797 digits, a tenth each to choose by and held out, drawn by the seed."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    pixels = np.rint(loaded.images * (255 / 16)).astype(np.uint8)  # the set has 17 shades
    examples = [
        Example({"image": png(image)}, str(label)) for image, label in zip(pixels, loaded.target.tolist(), strict=True)
    ]
    dev, test, train = split(examples, seed, 0.1, 0.1)
    return Dataset(
        name="Optical recognition of handwritten digits",
        licence="CC-BY-4.0",
        summary="scikit-learn's load_digits, 8 x 8 pixels; drawn at random, so writers are on all sides.",
        train=train,
        dev=dev,
        test=test,
    )


def drawings(*, seed: int = 0) -> Dataset:
    """The same, to be drawn."""
    return drawn.of_pictures(dataset(seed=seed))
