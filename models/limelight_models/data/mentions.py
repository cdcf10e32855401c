"""Mentions of made-up names, each with the description of an entity that may be meant, or another of the same name.

What somebody says of a name fits a description by what it is and by what distinguishes it among its kind: boats leave
a town by the sea. Nothing of a sentence stands in a description that fits it, and the name, which both have, tells
nothing, so that their other words have to be held against each other.
"""

import random

from limelight_bundle.values import Pair
from limelight_models.data.dataset import Dataset, Example

SAME, OTHER = "the same", "another"
# Of each kind of entity the two that there are: what is written of one, and what is said where it is meant.
_ENTITIES: dict[str, dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "town": {
        "sea": (("by the sea", "on the coast"), ("boats left {name} early", "they went swimming at {name}")),
        "hills": (("in the hills", "high above a valley"), ("skis were sold out in {name}", "we climbed up to {name}")),
    },
    "band": {
        "loud": (("with three drummers", "of heavy metal"), ("ears hurt after {name}", "{name} shouted all evening")),
        "soft": (("of flutes and harps", "that sings lullabies"), ("{name} whispered", "children slept to {name}")),
    },
    "player": {
        "chess": (("of chess", "with a strong queen's gambit"), ("{name} offered a draw", "mate , and {name} rose")),
        "football": (("of football", "with a strong left foot"), ("{name} headed it in", "{name} missed the goal")),
    },
    "horse": {
        "race": (("bred for races", "that holds a record"), ("bets on {name} paid", "{name} was first at the line")),
        "farm": (("kept on a farm", "that draws a cart"), ("{name} pulled the plough", "{name} carried the hay")),
    },
}
_BEFORE = ("", "yesterday ", "as everybody knows , ", "she wrote that ")
_BEHIND = ("", " , says an old book", " , now well known", " since long ago")
_SYLLABLES = "ba ce do fi ga he ji ko lu mo na pe ri so tu va wo".split()


def dataset(*, seed: int = 0, training: int = 3_000, held_out: int = 500) -> Dataset:
    """Write `training` + 2 × `held_out` pairs, half of them of the same entity; a name of one part is in no other."""
    chance, used = random.Random(f"mentions/{seed}"), set[str]()
    parts = [tuple(_pair(chance, used) for _ in range(count)) for count in (training, held_out, held_out)]
    return Dataset(
        name="Mentions and descriptions of made-up names",
        licence="none: generated",
        summary=f"What is said of a name, and an entity that has it: the one that is meant, or not. From seed {seed}.",
        train=parts[0],
        dev=parts[1],
        test=parts[2],
    )


def _pair(chance: random.Random, used: set[str]) -> Example:
    """What is said, and a description: of the same entity, of the other of its kind, or of another kind."""
    name = ""
    while not name or name in used:
        name = "".join(chance.choices(_SYLLABLES, k=4))
    used.add(name)
    kind = chance.choice(list(_ENTITIES))
    which = chance.choice(list(_ENTITIES[kind]))
    said = chance.choice(_BEFORE) + chance.choice(_ENTITIES[kind][which][1]).format(name=name)
    label = chance.choice((SAME, OTHER))
    if label == OTHER and chance.random() < 0.5:
        which = next(each for each in _ENTITIES[kind] if each != which)
    elif label == OTHER:
        kind = chance.choice([each for each in _ENTITIES if each != kind])
        which = chance.choice(list(_ENTITIES[kind]))
    told = f"{name} is a {kind} {chance.choice(_ENTITIES[kind][which][0])}{chance.choice(_BEHIND)}"
    return Example({"pair": Pair(said, told)}, label)
