"""Short news with made-up names, and their headlines, which have the same names and other words.

Names are put together from syllables, so that those held out stand in no training text: a headline has to take them
from its news. Beside what a headline tells there are sentences with names of their own, which it leaves out.
"""

import random
from string import Formatter

from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span
from limelight_models.data.names import group, person, place, product

_NAMES = {"a": person, "b": person, "place": place, "group": group, "product": product}
# What happened, and how a headline says it.
_EVENTS = (
    ("{a} came to {place} on {day} to speak with {b} .", "{a} meets {b} in {place}"),
    ("{group} said on {day} that it will open an office in {place} .", "{group} goes to {place}"),
    ("on {day} {group} showed its new {product} in {place} .", "{group} presents {product}"),
    ("after years in {place} , {a} has left {group} .", "{a} leaves {group}"),
    ("{a} was chosen on {day} to lead {group} after {b} .", "{a} follows {b} at {group}"),
    ("the {product} is no longer sold in {place} , said {group} .", "no more {product} in {place}"),
    ("{a} beat {b} in the final in {place} on {day} .", "{a} wins against {b}"),
    ("people in {place} are waiting for rain since {day} , said {a} .", "no rain in {place}"),
)
_BESIDE = (
    "{a} was not there .",
    "nobody at {group} wanted to comment .",
    "the weather in {place} was fine .",
    "it was the third time this year .",
    "{a} and {b} had expected it .",
    "shares of {group} did not move .",
)
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def dataset(*, seed: int = 0, training: int = 6_000, held_out: int = 500) -> Dataset:
    """Write `training` + 2 × `held_out` news; a name of one part is in no other."""
    chance, used = random.Random(f"headlines/{seed}"), set[str]()
    parts = []
    for count in (training, held_out, held_out):
        own = set[str]()
        parts.append(tuple(_example(chance, used, own) for _ in range(count)))
        used |= own
    return Dataset(
        name="Headlines of made-up news",
        licence="none: generated",
        summary=f"News of one to three sentences with names that are in no other part, generated from seed {seed}.",
        train=parts[0],
        dev=parts[1],
        test=parts[2],
    )


def _example(chance: random.Random, used: set[str], own: set[str]) -> Example:
    """News and headline. The right place of a name of the headline is that name in the news."""
    told, headline = chance.choice(_EVENTS)
    names = _fresh(chance, used, own)
    event, places = _filled(told, names)
    before, after = ([_filled(each, _fresh(chance, used, own))[0]] for each in chance.sample(_BESIDE, 2))
    sentences = [*before * chance.randint(0, 1), event, *after * chance.randint(0, 1)]
    text = " ".join(sentences)
    begin = text.index(event)
    title, of = _filled(headline, names)
    gold = tuple(
        Gold((Span("text", begin + places[field][0], begin + places[field][1]),), of=Span("target", *span))
        for field, span in of.items()
    )
    return Example({"text": Text(text), "target": Text(title)}, gold=gold)


def _fresh(chance: random.Random, used: set[str], own: set[str]) -> dict[str, str]:
    """A name for each field, none of those used; they are added to the part's own. And a day."""
    names: dict[str, str] = {}
    for field, make in _NAMES.items():
        name = " ".join(make(chance))
        while name.lower() in used or name in names.values():
            name = " ".join(make(chance))
        names[field] = name
    own |= {name.lower() for name in names.values()}
    return {**names, "day": chance.choice(_DAYS)}


def _filled(form: str, names: dict[str, str]) -> tuple[str, dict[str, tuple[int, int]]]:
    """The form with its names, and where each of them begins and ends."""
    text, places = "", {}
    for literal, field, _, _ in Formatter().parse(form):
        text += literal
        if field:
            places[field] = (len(text), len(text) + len(names[field]))
            text += names[field]
    return text, places
