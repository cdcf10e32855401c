"""Recall: what is asked for stands once, somewhere in 64 to 1,024 tokens, and it is known where.

    recall     k3 v7 k9 v2 … - k9 - - k3     the values of keys that were named before: v2 v7 (Arora et al. 2024,
               multi-query associative recall); `one` asks for a single key, at the end, whose value is the class
    selective  - - c4 - c1 - …               what is no filler, in order: c4 c1 (Gu and Dao 2023, selective copying)
    induction  n5 n2 * n7 n1 … *             what followed the mark when it was there first: n7 (Olsson et al. 2022)

Tokens are words, parted by spaces. Nothing but the place where it stands tells the answer, so that an average of all
tokens says little: this is what tells mechanisms apart.
"""

import random
from collections.abc import Callable, Sequence
from itertools import accumulate

from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span, word_spans

KEYS, VALUES, FILLER, MARK = 64, 16, "-", "*"
_LEAST = 16


def recall(tokens: int, chance: random.Random) -> Example:
    """Several keys are asked for, at random places behind the pairs: their values, in order."""
    words, values = _pairs(tokens // 8, chance)
    rest = tokens - len(words)
    asked = chance.sample(sorted(values), len(values) // 2)
    places = sorted(chance.sample(range(rest), len(asked)))
    behind = [FILLER] * rest
    for key, place in zip(asked, places, strict=True):
        behind[place] = key
    return _pair([*words, *behind], [words[values[key]] for key in asked], [[values[key]] for key in asked])


def one(tokens: int, chance: random.Random) -> Example:
    """One key is asked for, at the end: its value is the class."""
    words, values = _pairs((tokens - 1) // 2, chance)
    place = values[chance.choice(sorted(values))]
    text = [*words, *[FILLER] * (tokens - 1 - len(words)), words[place - 1]]
    return _class(text, words[place], place)


def selective(tokens: int, chance: random.Random) -> Example:
    """A few words among many fillers."""
    places = sorted(chance.sample(range(tokens), tokens // 8))
    words = [FILLER] * tokens
    for place in places:
        words[place] = f"c{chance.randrange(VALUES)}"
    return _pair(words, [words[place] for place in places], [[place] for place in places])


def induction(tokens: int, chance: random.Random) -> Example:
    """The word behind the mark, when the mark is seen again."""
    words = [f"n{chance.randrange(VALUES)}" for _ in range(tokens)]
    place = chance.randrange(tokens - 3)
    words[place] = words[-1] = MARK
    return _class(words, words[place + 1], place + 1)


FORMS: dict[str, Callable[[int, random.Random], Example]] = {
    "recall": recall,
    "one": one,
    "selective": selective,
    "induction": induction,
}


def dataset(
    form: str, *, seed: int = 0, training: int = 8_000, held_out: int = 1_000, tokens: int = 64, longer: int = 0
) -> Dataset:
    """Make `training` + 2 × `held_out` texts of so many tokens; those held out have `longer` where that is given.

    Raises: ValueError for fewer than 16 tokens.
    """
    if min(tokens, longer or tokens) < _LEAST:
        raise ValueError(f"{tokens} tokens are too few; at least {_LEAST} are wanted")
    chance = random.Random(f"{form}/{seed}")
    make = FORMS[form]
    return Dataset(
        name=f"Recall: {form}",
        licence="none: generated",
        summary=f"Texts of {tokens} tokens, held out of {longer or tokens}, generated from seed {seed}.",
        train=tuple(make(tokens, chance) for _ in range(training)),
        dev=tuple(make(tokens, chance) for _ in range(held_out)),
        test=tuple(make(longer or tokens, chance) for _ in range(held_out)),
    )


def _pairs(most: int, chance: random.Random) -> tuple[list[str], dict[str, int]]:
    """Keys, each with a value behind it, as words; where each key's value stands."""
    keys = [f"k{number}" for number in chance.sample(range(KEYS), min(most, KEYS))]
    words = [word for key in keys for word in (key, f"v{chance.randrange(VALUES)}")]
    return words, {key: 2 * number + 1 for number, key in enumerate(keys)}


def _pair(words: Sequence[str], answers: Sequence[str], places: Sequence[Sequence[int]]) -> Example:
    starts, target = _starts(words), " ".join(answers)
    gold = tuple(
        Gold(tuple(_word(words, starts, key) for key in keys), of=of)
        for of, keys in zip(word_spans("target", target), places, strict=True)
    )
    return Example({"text": Text(" ".join(words)), "target": Text(target)}, gold=gold)


def _class(words: Sequence[str], label: str, place: int) -> Example:
    gold = Gold((_word(words, _starts(words), place),))
    return Example({"text": Text(" ".join(words))}, label, gold=(gold,))


def _starts(words: Sequence[str]) -> list[int]:
    return list(accumulate((len(word) + 1 for word in words), initial=0))


def _word(words: Sequence[str], starts: Sequence[int], place: int) -> Span:
    return Span("text", starts[place], starts[place] + len(words[place]))
