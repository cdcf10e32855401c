"""Stories of two or three sentences, each word that ends a mention with the last mention of the same person before it.

A pronoun is one of the only person, or group, whom it can mean, a reflexive one of its subject, and `the king` is the
king. A mention of somebody new depends on itself, as words do that end no mention.
"""

import random
from itertools import islice

from limelight_bundle.values import Sentences
from limelight_models.data import rows
from limelight_models.data.dataset import Dataset, Example

_PEOPLE = {
    "f": "queen nurse aunt girl nun witch".split(),
    "m": "king monk uncle boy duke wizard".split(),
    "p": "twins guards dancers pilots neighbours nieces".split(),
}
# As a subject, as an object, as an object that is the subject.
_PRONOUNS = {"f": ("she", "her", "herself"), "m": ("he", "him", "himself"), "p": ("they", "them", "themselves")}
_LOOKS = "old young tall busy".split()
_DEEDS = "met saw praised followed painted helped warned".split()
_PLACES = "in the park|near the harbour|after lunch|in spring".split("|")
# A, B and C are people of three kinds: named (A), as a subject (As), an object (Ao), or in the place of one (Ar).
_FIRST = ("A D B", "A D B near C", "A and B D C", "P A D B")
_NEXT = ("then As D Bo", "then Bs D Ao", "As D Ar", "Bs D Br P", "then A D Bo", "later B D Ao", "it was raining")
_COUNTS = (1500, 300, 300)  # to train, to choose by, held out
MENTION = "B-mention"


def dataset(*, seed: int = 0) -> Dataset:
    """Write stories, none twice."""
    chance = random.Random(f"antecedents/{seed}")
    found: dict[tuple[str, ...], Example] = {}
    while len(found) < sum(_COUNTS):
        words, example = _story(chance)
        found.setdefault(words, example)
    drawn = iter(found.values())
    train, dev, test = (tuple(islice(drawn, count)) for count in _COUNTS)
    return Dataset(
        name="Antecedents in made-up stories",
        licence="CC0-1.0",
        summary="Who is meant: each mention with the one before it of the same person or group.",
        train=train,
        dev=dev,
        test=test,
    )


def _story(chance: random.Random) -> tuple[tuple[str, ...], Example]:
    """The words, and the example; the antecedent of a word is its own place where it has none."""
    kinds = chance.sample(list(_PEOPLE), 3)
    people = {letter: (kind, chance.choice(_PEOPLE[kind])) for letter, kind in zip("ABC", kinds, strict=True)}
    sentences = [chance.choice(_FIRST), *chance.sample(_NEXT, chance.randint(1, 2))]
    words: list[str] = []
    tags: list[str] = []
    before: list[int] = []
    last: dict[str, int] = {}
    for part in " . ".join((*sentences, "")).split():
        letter = part[0] if part[0] in people and part[1:] in ("", "s", "o", "r") else ""
        if letter:
            kind, noun = people[letter]
            new = letter not in last
            looks = [chance.choice(_LOOKS)] if new and chance.random() < 0.5 else []
            written = ["the", *looks, noun] if len(part) == 1 else [_PRONOUNS[kind]["sor".index(part[1])]]
        else:
            written = chance.choice({"D": _DEEDS, "P": _PLACES}.get(part, [part])).split()
        words += written
        tags += ["O"] * (len(written) - 1) + [MENTION if letter else "O"]
        before += range(len(before), len(words))
        if letter:
            before[-1] = last.get(letter, before[-1])
            last[letter] = len(words) - 1
    example = Example(
        {"document": Sentences(tuple(words))}, labels=tuple(tags), gold=rows.parse(words, [each + 1 for each in before])
    )
    return tuple(words), example
