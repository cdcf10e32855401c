"""Sequences that are rewritten by a rule, so that it is known where each character comes from.

    copy    qbbd -> qbbd        reverse qbbd -> dbbq        sort   qbbd -> bbdq
    expand  q2b1d3 -> qqbddd    each letter as often as the digit behind it says: monotonic, at an uneven pace
    delay   2qbbd -> ..qb       each letter so late as the first digit says: monotonic, behind what has been read

`expand` and `delay` can be done online, reading from left to right (Raffel et al. 2017). Held out are sequences of the
lengths that were trained, or with `longer` of up to twice the longest: who has learned the rule knows those as well.
"""

import random
import string
from collections.abc import Callable, Sequence

from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span

LENGTHS = (4, 16)
_LATEST = 3

# What is written for letters, and for each character of it the places of the text that are right.
Written = tuple[str, str, list[list[int]]]


def copy(letters: str, chance: random.Random) -> Written:
    """The same again."""
    return letters, letters, [[place] for place in range(len(letters))]


def reverse(letters: str, chance: random.Random) -> Written:
    """From the last letter to the first."""
    return letters, letters[::-1], [[place] for place in reversed(range(len(letters)))]


def sort(letters: str, chance: random.Random) -> Written:
    """By the alphabet; a letter that is there more than once comes from any of its places."""
    places = {each: [place for place, other in enumerate(letters) if other == each] for each in letters}
    done = "".join(sorted(letters))
    return letters, done, [places[each] for each in done]


def expand(letters: str, chance: random.Random) -> Written:
    """As often as the digit behind a letter says."""
    counts = [chance.randint(1, 3) for _ in letters]
    text = "".join(f"{letter}{count}" for letter, count in zip(letters, counts, strict=True))
    places = [[2 * place] for place, count in enumerate(counts) for _ in range(count)]
    return text, "".join(text[place] for (place,) in places), places


def delay(letters: str, chance: random.Random) -> Written:
    """So many places later as the first digit says; dots until then come from that digit."""
    late = chance.randint(1, min(_LATEST, len(letters)))
    places = [[0]] * late + [[1 + place] for place in range(len(letters) - late)]
    return f"{late}{letters}", "." * late + letters[: len(letters) - late], places


RULES: dict[str, Callable[[str, random.Random], Written]] = {
    "copy": copy,
    "reverse": reverse,
    "sort": sort,
    "expand": expand,
    "delay": delay,
}


def dataset(
    rule: str,
    *,
    seed: int = 0,
    training: int = 8_000,
    held_out: int = 1_000,
    lengths: tuple[int, int] = LENGTHS,
    longer: bool = False,
) -> Dataset:
    """Make `training` + 2 × `held_out` different examples of a rule; the seed decides all of it.

    lengths: the fewest and most letters. longer: whether those that are held out have more letters than any other.
    """
    chance, seen = random.Random(f"{rule}/{seed}"), set[str]()
    train = examples(rule, training, lengths, chance, seen)
    dev = examples(rule, held_out, lengths, chance, seen)
    beyond = (lengths[1] + 1, 2 * lengths[1]) if longer else lengths
    name = f"Letters: {rule}" + (f", {beyond[0]} to {beyond[1]} of them" if lengths != LENGTHS else "")
    shown = f"held out with {beyond[0]} to {beyond[1]}" if longer else "some of them held out"
    return Dataset(
        name=name,
        licence="none: generated",
        summary=f"Sequences of {lengths[0]} to {lengths[1]} letters, {shown}, generated from seed {seed}.",
        train=train,
        dev=dev,
        test=examples(rule, held_out, beyond, chance, seen),
    )


def examples(
    rule: str, count: int, lengths: tuple[int, int], chance: random.Random, seen: set[str]
) -> tuple[Example, ...]:
    """So many whose texts were not seen."""
    found: list[Example] = []
    while len(found) < count:
        letters = "".join(chance.choices(string.ascii_lowercase, k=chance.randint(*lengths)))
        text, target, places = RULES[rule](letters, chance)
        if text not in seen:
            seen.add(text)
            found.append(example(text, target, places))
    return tuple(found)


def example(text: str, target: str, places: Sequence[Sequence[int]]) -> Example:
    """An example of characters to be written, with the places that each comes from."""
    gold = tuple(
        Gold(tuple(Span("text", key, key + 1) for key in keys), of=Span("target", place, place + 1))
        for place, keys in enumerate(places)
    )
    return Example({"text": Text(text), "target": Text(target)}, gold=gold)
