"""Pairs of sentences that follow, contradict, or say nothing of each other: a small world, written by rules.

A premise tells who does what where. What follows says less of it or says it more generally; what contradicts has
somebody do what cannot be done at the same time, or elsewhere; what is neutral adds what the premise does not say.
Held out are whole premises: none is in two parts. Words are shared, so what is learned is how they are related.
"""

import random
from itertools import product

from limelight_bundle.values import Pair
from limelight_models.data.dataset import Dataset, Example, split

LABELS = ("contradiction", "entailment", "neutral")
KINDS = {"dog": "animal", "cat": "animal", "horse": "animal", "man": "person", "woman": "person", "girl": "person"}
LOOKS = ("tall", "young", "happy", "brown")
DEEDS = {"running": "moving", "walking": "moving", "sleeping": "resting", "sitting": "resting"}
PLACES = {"in a park": "outside", "on a beach": "outside", "in a kitchen": "inside", "in a shop": "inside"}
REASONS = ("after a long day", "with a friend", "because it is late", "before dinner")


def dataset(*, seed: int = 0) -> Dataset:
    """Six pairs a premise, two of each class."""
    premises = list(product(KINDS, ("", *LOOKS), DEEDS, PLACES))
    dev, test, train = split(premises, seed, 0.1, 0.1)
    parts = [
        tuple(pair for premise in part for pair in pairs(*premise, chance=random.Random(f"{seed}/{premise}")))
        for part in (train, dev, test)
    ]
    return Dataset(
        name="Pairs of made-up sentences",
        licence="CC0-1.0",
        summary="Who does what where, then what follows, contradicts or adds; premises are held out whole.",
        train=parts[0],
        dev=parts[1],
        test=parts[2],
    )


def pairs(who: str, look: str, deed: str, place: str, *, chance: random.Random) -> list[Example]:
    """The pairs of one premise."""
    premise = f"a {look} {who} is {deed} {place}".replace("  ", " ")
    other_deed = chance.choice([each for each, kind in DEEDS.items() if kind != DEEDS[deed]])
    other_place = chance.choice([each for each, kind in PLACES.items() if kind != PLACES[place]])
    other_look = chance.choice([each for each in LOOKS if each != look])
    hypotheses = (
        ("entailment", f"a {who} is {chance.choice([deed, DEEDS[deed]])}"),
        ("entailment", f"the {KINDS[who]} is {chance.choice([place, PLACES[place]])}"),
        ("contradiction", f"the {who} is {chance.choice([other_deed, DEEDS[other_deed]])}"),
        ("contradiction", f"a {KINDS[who]} is {deed} {chance.choice([other_place, PLACES[other_place]])}"),
        ("neutral", f"a {other_look} {who} is {deed}"),
        ("neutral", f"the {who} is {deed} {chance.choice(REASONS)}"),
    )
    return [Example({"pair": Pair(premise, hypothesis)}, label) for label, hypothesis in hypotheses]
