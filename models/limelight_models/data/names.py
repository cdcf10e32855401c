"""Short messages with made-up names of people, places, groups and products, each word with its tag.

Names are put together from syllables, so that those held out stand in no training message: what is left to go by is
how a name is spelled (places end as places do, products have numbers, groups capitals) and what stands around it, where
that says anything. Like real messages, some are all in small letters.
"""

import random
from collections.abc import Callable

from limelight_bundle.values import Sentences
from limelight_models.data.dataset import Dataset, Example

_SYLLABLES = (
    "ba be bo ca da de do fa fe ga go ha ka ke ko la le lo ma me mi mo na ne no pa pe ra re ro sa se so ta te to va vo"
).split()
_ENDINGS = "ton ville burg ham ford port".split()
_FORMS = (
    "just met {person} and {person} near {place} !",
    "{person} is moving to {place} next week",
    "anyone in {place} who has seen {person} ?",
    "the new {product} from {group} is great",
    "I want a {product} so much :)",
    "{group} are playing in {place} tonight",
    "listening to {group} with {person} all day",
    "why is my {product} so slow today",
    "thanks {person} for the {product} !",
    "rain in {place} again , staying home",
    "does {group} still sell the {product} ?",
    "what a day",
    "so tired after work today",
    "{person} , call me when you are in {place}",
)
_SMALL = 0.15  # of messages


def person(chance: random.Random) -> list[str]:
    """A first name, with a last one half of the time."""
    return [_word(chance, 2) for _ in range(chance.randint(1, 2))]


def place(chance: random.Random) -> list[str]:
    """A name with an ending of places, rarely with New before it."""
    name = _word(chance, chance.randint(1, 2)) + chance.choice(_ENDINGS)
    return ["New", name] if chance.random() < 0.2 else [name]


def group(chance: random.Random) -> list[str]:
    """The and a plural, or capitals."""
    name = _word(chance, 2)
    return ["The", f"{name}s"] if chance.random() < 0.5 else [name[:3].upper()]


def product(chance: random.Random) -> list[str]:
    """A name and a number, together or apart."""
    name, number = _word(chance, 2), chance.randint(2, 9)
    return [f"{name}{number}"] if chance.random() < 0.5 else [name, str(100 * number)]


KINDS: dict[str, Callable[[random.Random], list[str]]] = {
    "person": person,
    "place": place,
    "group": group,
    "product": product,
}


def dataset(*, seed: int = 0, training: int = 1_500, held_out: int = 300) -> Dataset:
    """Write `training` + 2 × `held_out` messages; a name that was used in one part is in no other."""
    chance, used = random.Random(f"names/{seed}"), set[str]()
    parts = []
    for count in (training, held_out, held_out):
        examples, own = [], set[str]()
        for _ in range(count):
            examples.append(message(chance, used, own))
        used |= own
        parts.append(tuple(examples))
    return Dataset(
        name="Messages with made-up names",
        licence="none: generated",
        summary=f"Names of four kinds in short messages, none of them in two parts, generated from seed {seed}.",
        train=parts[0],
        dev=parts[1],
        test=parts[2],
    )


def message(chance: random.Random, used: set[str], own: set[str]) -> Example:
    """One message, whose names are not among those used; they are added to its part's own."""
    words: list[str] = []
    tags: list[str] = []
    for piece in chance.choice(_FORMS).split():
        if not piece.startswith("{"):
            words.append(piece)
            tags.append("O")
            continue
        kind = piece.strip("{}")
        name = KINDS[kind](chance)
        while " ".join(name).lower() in used:
            name = KINDS[kind](chance)
        own.add(" ".join(name).lower())
        words += name
        tags += [f"{'I' if number else 'B'}-{kind}" for number in range(len(name))]
    if chance.random() < _SMALL:
        words = [word.lower() for word in words]
    return Example({"document": Sentences(tuple(words))}, labels=tuple(tags))


def _word(chance: random.Random, syllables: int) -> str:
    return "".join(chance.choices(_SYLLABLES, k=syllables)).capitalize() + chance.choice(("", "", "n", "l", "r"))
