"""Classes to be drawn: the class is what goes in, a picture of it what is to come out."""

from dataclasses import replace

from limelight_bundle.values import Image, Text
from limelight_models.data.dataset import Dataset, Example

INPUT = "class"


def of_pictures(dataset: Dataset) -> Dataset:
    """Labelled pictures the other way round."""
    train, dev, test = (tuple(map(drawing, part)) for part in (dataset.train, dataset.dev, dataset.test))
    return replace(dataset, train=train, dev=dev, test=test)


def drawing(example: Example) -> Example:
    """A class to be drawn, from a picture with its class."""
    picture = example.instance["image"]
    assert isinstance(picture, Image)
    return Example({INPUT: Text(example.label)}, example.label, picture=picture)
