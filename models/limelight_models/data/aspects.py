"""Sentences about two or three things, each with an opinion of its own: restaurants of a small world, written by rules.

Of the things in a sentence two at least are not thought of alike, so that a sentence as a whole says nothing of any of
them; and an opinion can stand nearer to another thing than to its own. The right place to look is the opinion: what is
said of the thing, or for a neutral one what was done with it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

from limelight_bundle.values import Pair, Text
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span
from limelight_models.data.rows import side

Form = Literal["targets", "questions"]
LABELS = ("negative", "neutral", "positive")
THINGS = (
    "soup", "pasta", "steak", "salad", "bread", "pizza", "curry", "burger", "coffee", "dessert", "cheese cake",
    "tuna roll", "fried rice", "house wine", "lemon tart", "lamb stew", "green tea", "grilled fish", "apple pie",
)  # fmt: skip
GOOD = ("delicious", "great", "lovely", "perfect", "fresh", "superb")
BAD = ("awful", "stale", "terrible", "dull", "disappointing", "poor")
# What a clause says of the thing T by the opinion O, and the words that O can be.
CLAUSES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "positive": (
        ("the T was O", GOOD),
        ("they have O T", GOOD),
        ("we O the T", ("loved", "enjoyed", "praised")),
        ("the T was O", tuple(f"not {word}" for word in BAD)),
    ),
    "negative": (
        ("the T was O", BAD),
        ("they have O T", BAD),
        ("we O the T", ("hated", "disliked", "regretted")),
        ("the T was O", tuple(f"not {word}" for word in GOOD)),
    ),
    "neutral": (
        ("we O the T", ("ordered", "saw", "discussed", "mentioned")),
        ("the T O", ("came first", "was next", "was on the list", "changed")),
    ),
}
# A clause with another in it: a word of the inner thing stands between the outer one and what is said of it.
NESTED = "the T that came with the o t was O"
JOINTS = (", but", ", and", "while", ";")
QUESTIONS = ("how was the {}?", "what about the {}?", "did you like the {}?", "and the {}?")


@dataclass(frozen=True)
class Said:
    """A sentence with its opinions: words; for each thing its class, its place and the place of the opinion."""

    words: tuple[str, ...]
    things: tuple[tuple[str, slice, slice], ...]


def dataset(*, form: Form = "targets", seed: int = 0, training: int = 2_500, held_out: int = 300) -> Dataset:
    """Make `training` + 2 × `held_out` sentences, none of them twice, with an example for each thing in them.

    form: a target between its left and its right, or a question about the target and the sentence as its answer.
    """
    chance = random.Random(f"aspects/{seed}")
    found: dict[tuple[str, ...], Said] = {}
    while len(found) < training + 2 * held_out:
        made = sentence(chance)
        found.setdefault(made.words, made)
    examples = [[example(each, number, form, chance) for number in range(len(each.things))] for each in found.values()]
    cuts = (0, training, training + held_out, len(examples))
    train, dev, test = (tuple(one for each in examples[begin:end] for one in each) for begin, end in pairwise(cuts))
    return Dataset(
        name=f"Opinions of a made-up restaurant: {form}",
        licence="none: generated",
        summary=f"Sentences about two or three things that are not thought of alike, generated from seed {seed}.",
        train=train,
        dev=dev,
        test=test,
    )


def sentence(chance: random.Random) -> Said:
    """Two or three things, at least two of different classes."""
    labels = chance.sample(LABELS, 2) + [chance.choice(LABELS)] * chance.randint(0, 1)
    chance.shuffle(labels)
    things = chance.sample(THINGS, len(labels))
    words: list[str] = []
    places: list[tuple[str, slice, slice]] = []
    pending = list(zip(labels, things, strict=True))
    while pending:
        if words:
            words += chance.choice(JOINTS).split()
        nested = len(pending) > 1 and "neutral" not in (pending[0][0], pending[1][0]) and chance.random() < 0.5
        count = 2 if nested else 1
        template, fillings = clause(pending[:count], chance)
        del pending[:count]
        found: dict[str, slice] = {}
        for word in template.split():
            begin = len(words)
            words += fillings[word].split() if word in fillings else [word]
            found[word] = slice(begin, len(words))
        places += [(fillings[f"label {t}"], found[t], found[o]) for t, o in (("T", "O"), ("t", "o")) if t in fillings]
    return Said(tuple(words), tuple(places))


def clause(things: Sequence[tuple[str, str]], chance: random.Random) -> tuple[str, dict[str, str]]:
    """A clause about one thing or two: a template, and the words in the place of its capitals."""
    fillings: dict[str, str] = {}
    template = NESTED
    for (label, thing), t, o in zip(things, "Tt", "Oo", strict=False):
        if len(things) == 1:
            template, opinions = chance.choice(CLAUSES[label])
        else:
            opinions = GOOD if label == "positive" else BAD
        fillings |= {t: thing, o: chance.choice(opinions), f"label {t}": label}
    return template, fillings


def example(said: Said, number: int, form: Form, chance: random.Random) -> Example:
    """An example about one of the things."""
    label, target, opinion = said.things[number]
    words = said.words
    thing = " ".join(words[target])
    if form == "questions":
        question = chance.choice(QUESTIONS).format(thing)
        return Example({"pair": Pair(question, " ".join(words))}, label, gold=_gold("pair.second", words, opinion))
    before = opinion.start < target.start
    offset = 0 if before else target.stop
    place = slice(opinion.start - offset, opinion.stop - offset)
    gold = _gold("left", words, place) if before else _gold("right", words[target.stop :], place)
    sides = {"left": words[: target.start], "right": words[target.stop :]}
    return Example({**{n: side(" ".join(w)) for n, w in sides.items()}, "target": Text(thing)}, label, gold=gold)


def _gold(name: str, words: Sequence[str], place: slice) -> tuple[Gold, ...]:
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))
    return (Gold((Span(name, starts[place.start], starts[place.stop] - 1),)),)
