"""The sentences of the made-up restaurant word by word: what is spoken of, and what is thought of it.

A word is part of an aspect, of an opinion that is good or bad, or of neither. What was merely ordered, or came first,
has no opinion about it, and is an aspect all the same.
"""

import random
from itertools import pairwise

from limelight_bundle.values import Sentences
from limelight_models.data.aspects import Said, sentence
from limelight_models.data.dataset import Dataset, Example

ASPECT, OPINION = "aspect", "opinion"
_COUNTS = (0, 1500, 1800, 2100)  # where training, choosing, and what is held out begin and end


def dataset(*, seed: int = 0) -> Dataset:
    """Write sentences, none twice."""
    chance = random.Random(f"terms/{seed}")
    found: dict[tuple[str, ...], Said] = {}
    while len(found) < _COUNTS[-1]:
        made = sentence(chance)
        found.setdefault(made.words, made)
    examples = tuple(example(each) for each in found.values())
    train, dev, test = (examples[begin:end] for begin, end in pairwise(_COUNTS))
    return Dataset(
        name="Aspects and opinions of a made-up restaurant",
        licence="none: generated",
        summary="Sentences about two or three things, each word tagged as part of an aspect, of an opinion or neither.",
        train=train,
        dev=dev,
        test=test,
    )


def example(said: Said) -> Example:
    """Words, and the tag of each: `B-` and `I-` of a kind, or `O`."""
    tags = ["O"] * len(said.words)
    for label, thing, opinion in said.things:
        for kind, place in ((ASPECT, thing), (OPINION, opinion)):
            if kind == ASPECT or label != "neutral":
                tags[place] = [f"{'I' if number else 'B'}-{kind}" for number in range(place.stop - place.start)]
    return Example({"document": Sentences(said.words)}, labels=tuple(tags))
