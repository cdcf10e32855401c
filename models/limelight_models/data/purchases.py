"""Passages of who bought what where, with questions that a few words of one sentence answer: a small world, by rules.

Looks and places come up in several sentences of a passage; persons and things in one, so that the question says which
is meant. No passage is in two parts.
"""

import random
from itertools import islice

from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.passages import asked

PEOPLE = ("Ada", "Ben", "Cleo", "Dan", "Eve")
THINGS = ("lamp", "book", "chair", "coat")
LOOKS = ("old", "red", "small", "very old", "dark green")
PLACES = ("Oslo", "Rome", "New York", "Lima", "Rio de Janeiro", "Hong Kong")
_FACTS = 4  # of a passage, at most
_COUNTS = (3000, 300, 500)  # to train, to choose by, held out


def dataset(*, seed: int = 0) -> Dataset:
    """One question a passage."""
    chance = random.Random(f"purchases/{seed}")
    told: dict[str, Example] = {}
    while len(told) < sum(_COUNTS):
        passage, example = _passage(chance)
        told.setdefault(passage, example)
    drawn = iter(told.values())
    train, dev, test = (tuple(islice(drawn, count)) for count in _COUNTS)
    return Dataset(
        name="Made-up purchases",
        licence="CC0-1.0",
        summary="Who bought what where, asked for one of the three.",
        train=train,
        dev=dev,
        test=test,
    )


def _passage(chance: random.Random) -> tuple[str, Example]:
    """A passage with its example."""
    count = chance.randint(2, _FACTS)
    pairs = zip(chance.sample(PEOPLE, count), chance.sample(THINGS, count), strict=True)
    facts = [(who, what, chance.choice(LOOKS), chance.choice(PLACES)) for who, what in pairs]
    passage, places = "", []
    for who, what, look, where in facts:
        places.append(len(passage))
        passage += f"{who} bought the {look} {what} in {where}. "
    chosen = chance.randrange(len(facts))
    who, what, look, where = facts[chosen]
    sentence = f"{who} bought the {look} {what} in {where}."
    question, answer = chance.choice(
        [
            (f"Where did {who} buy the {what}?", where),
            (f"What did the {what} that {who} bought look like?", look),
            (f"Who bought the {what}?", who),
        ]
    )
    return passage.strip(), asked(passage.strip(), question, [(answer, places[chosen] + sentence.index(answer))])
