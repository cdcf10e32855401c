"""Short texts with one to three topics each, of many topics that hang together in groups.

A sentence tells of one topic by words of its group, which all topics of the group share, and by a word of its own; so a
group is easy to tell, and a topic is told among the few of its group. Many topics have made-up words.
"""

import random
from collections.abc import Sequence
from itertools import islice

from limelight_bundle.values import Text
from limelight_models.data.dataset import Dataset, Example

# Of each group the words of all of its topics, then each topic with two words of its own.
_GROUPS = """
kitchen table recipe dinner plate | soup ladle broth | bread flour oven | salad lettuce bowl | fish trout lemon
match team coach season training | rowing oars boat | tennis racket net | skiing snow slope | running shoes track
concert stage audience hall evening | opera soprano aria | jazz trumpet swing | folk fiddle ballad | choir voices hymn
soil spring spade plants gardener | roses thorns petals | apples orchard ladder | herbs thyme mint | bees hive honey
journey luggage ticket map hotel | trains platform rails | ships harbour deck | hiking boots trail | cycling tyres pump
clinic nurse patient advice visit | teeth dentist drill | bones plaster crutch | eyes lenses glasses | sleep pillow nap
"""
_FORMS = (
    "the {} and the {} , with {}",
    "a {} of {} near the {}",
    "{} or {} , said the one with the {}",
    "no {} without {} and {}",
)
_SYLLABLES = tuple(consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou")
_SHARED, _TOPICS, _OWN = 4, 6, 2  # words of a made-up group, its topics, and words of each beside its name

Topic = tuple[str, list[str], list[str]]  # its name, the words of its group, its own


def dataset(*, seed: int = 0, training: int = 2_500, held_out: int = 400, groups: int = 0) -> Dataset:
    """Write `training` + 2 × `held_out` texts. groups: so many of made-up words in the place of the English ones."""
    chance = random.Random(f"topics/{seed}")
    topics = _made_up(groups) if groups else _topics()
    train, dev, test = (
        tuple(_example(topics, chance) for _ in range(count)) for count in (training, held_out, held_out)
    )
    return Dataset(
        name=f"{len(topics)} topics of made-up texts" if groups else "Topics of made-up texts",
        licence="none: generated",
        summary=f"Texts of one to three sentences, each with a topic of its own, generated from seed {seed}.",
        train=train,
        dev=dev,
        test=test,
    )


def _example(topics: Sequence[Topic], chance: random.Random) -> Example:
    told = chance.sample(topics, chance.randint(1, 3))
    sentences = []
    for _, shared, own in told:
        words = [*chance.sample(shared, 2), chance.choice(own)]
        sentences.append(chance.choice(_FORMS).format(*chance.sample(words, 3)))
    return Example({"text": Text(" . ".join(sentences))}, labels=tuple(sorted(topic for topic, _, _ in told)))


def _topics() -> list[Topic]:
    """Each topic of English words."""
    found = []
    for line in _GROUPS.strip().splitlines():
        shared, *topics = (part.split() for part in line.split("|"))
        found += [(name, shared, own) for name, *own in topics]
    return found


def _made_up(groups: int) -> list[Topic]:
    """Each topic of so many groups of words that are none, the same for every seed."""
    chance = random.Random("topics")
    words: dict[str, None] = {}
    while len(words) < groups * (_SHARED + _TOPICS * (1 + _OWN)):
        words["".join(chance.choices(_SYLLABLES, k=chance.randint(2, 3)))] = None
    made, found = iter(words), list[Topic]()
    for _ in range(groups):
        shared = list(islice(made, _SHARED))
        found += [(name, shared, own) for name, *own in (list(islice(made, 1 + _OWN)) for _ in range(_TOPICS))]
    return found
