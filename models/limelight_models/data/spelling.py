"""Words as people type them: without accents, in another case, with a slip of a finger."""

import random
import unicodedata
from collections.abc import Sequence

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WITHOUT_ACCENTS = 0.2
_SPELT_OUT = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"}


def plain(text: str) -> str:
    """Without accents: février -> fevrier."""
    return "".join(each for each in unicodedata.normalize("NFD", text) if not unicodedata.combining(each))


def spelt_out(text: str) -> str:
    """As German is typed without its own keys: März -> Maerz."""
    return "".join(_SPELT_OUT.get(each, each) for each in text)


def slip(word: str, chance: random.Random) -> str:
    """A letter behind the first one is left out, doubled, another one, or its neighbour's place is its own."""
    place = chance.randrange(1, len(word))
    kind = chance.randrange(4)
    if kind == 0:
        return word[:place] + word[place + 1 :]
    if kind == 1:
        return word[:place] + word[place] + word[place:]
    if kind == 2:
        return word[:place] + chance.choice(_LETTERS) + word[place + 1 :]
    place = min(place, len(word) - 2) if len(word) > 2 else 0
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def mistyped(word: str, chance: random.Random, others: Sequence[str]) -> str:
    """A word with a slip of a finger (or none), never so that another could be meant. others: in small letters."""
    while True:
        typed = slip(word, chance)
        if not any(near(typed.lower(), other) for other in others if other != word.lower()):
            return typed


def cased(text: str, chance: random.Random) -> str:
    """With and without capitals and accents; every character stays in its place."""
    if chance.random() < _WITHOUT_ACCENTS:
        text = plain(text)
    return chance.choice((text, text, text.lower(), text.lower(), text.upper()))


def near(one: str, other: str) -> bool:
    """Tell whether one slip of a finger makes one word of the other (Damerau's edits)."""
    if one == other:
        return True
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    left, right = one[start:], other[start:]
    if len(left) == len(right):
        return left[1:] == right[1:] or (left[:2] == right[1::-1] and left[2:] == right[2:])
    return left[1:] == right if len(left) > len(right) else left == right[1:]
