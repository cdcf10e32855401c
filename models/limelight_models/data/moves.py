"""Stories of people who move and carry things, with questions that one or two facts answer: a small world, by rules.

Somebody goes somewhere, or takes something and keeps it. A question is where somebody is, which their last move
answers, or where a thing is, which takes the fact of who has it as well. No story is in two parts.
"""

import random
from itertools import islice

from limelight_bundle.values import Sentences, Text
from limelight_models.data.dataset import Dataset, Example
from limelight_models.data.gold import Gold, Span

PEOPLE = ("Ada", "Ben", "Cleo")
PLACES = ("cellar", "garage", "attic", "porch", "study")
THINGS = ("lamp", "book")
_FACTS = 8  # of a story, at most
_COUNTS = (2000, 200, 200)  # to train, to choose by, held out


def dataset(*, seed: int = 0) -> Dataset:
    """One question a story, half of them about a thing where one is known to be somewhere."""
    chance = random.Random(f"moves/{seed}")
    told: dict[Sentences, Example] = {}  # no story is told twice, whatever is asked
    while len(told) < sum(_COUNTS):
        facts, example = story(chance)
        told.setdefault(facts, example)
    drawn = iter(told.values())
    train, dev, test = (tuple(islice(drawn, count)) for count in _COUNTS)
    return Dataset(
        name="Made-up moves",
        licence="CC0-1.0",
        summary="Who goes where and carries what; where somebody, or something, is at the end.",
        train=train,
        dev=dev,
        test=test,
    )


def story(chance: random.Random) -> tuple[Sentences, Example]:
    """Draw a story, and an example with its question; the facts that answer it are gold."""
    facts: list[str] = []
    moved: dict[str, int] = {}  # the fact that says where each person is
    where: dict[str, str] = {}
    has: dict[str, tuple[str, int]] = {}  # who has each thing, and the fact that says so
    for _ in range(chance.randint(3, _FACTS)):
        who = chance.choice(PEOPLE)
        free = [thing for thing in THINGS if thing not in has]
        if who in where and free and chance.random() < 0.4:
            thing = chance.choice(free)
            has[thing] = who, len(facts)
            facts.append(f"{who} took the {thing}.")
            continue
        moved[who], where[who] = len(facts), chance.choice([each for each in PLACES if each != where.get(who)])
        facts.append(f"{who} went to the {where[who]}.")
    if has and chance.random() < 0.5:
        thing = chance.choice(sorted(has))
        who, took = has[thing]
        return _asked(facts, f"Where is the {thing}?", where[who], took, moved[who])
    who = chance.choice(sorted(where))
    return _asked(facts, f"Where is {who}?", where[who], moved[who])


def _asked(facts: list[str], question: str, answer: str, *right: int) -> tuple[Sentences, Example]:
    keys = tuple(Span("document", 0, len(facts[fact]), sentence=fact) for fact in right)
    told = Sentences(tuple(facts))
    return told, Example({"document": told, "question": Text(question)}, answer, gold=(Gold(keys, in_turn=True),))
