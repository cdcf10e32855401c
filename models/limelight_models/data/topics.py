"""Short texts with one to three topics each, of many topics that hang together in groups.

A sentence tells of one topic by words of its group, which all topics of the group share, and by a word of its own; so a
group is easy to tell, and a topic is told among the few of its group.
"""

import random

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


def dataset(*, seed: int = 0, training: int = 2_500, held_out: int = 400) -> Dataset:
    """Write `training` + 2 × `held_out` texts."""
    chance = random.Random(f"topics/{seed}")
    train, dev, test = (tuple(_example(chance) for _ in range(count)) for count in (training, held_out, held_out))
    return Dataset(
        name="Topics of made-up texts",
        licence="none: generated",
        summary=f"Texts of one to three sentences, each with a topic of its own, generated from seed {seed}.",
        train=train,
        dev=dev,
        test=test,
    )


def _example(chance: random.Random) -> Example:
    told = chance.sample(_topics(), chance.randint(1, 3))
    sentences = []
    for _, shared, own in told:
        words = [*chance.sample(shared, 2), chance.choice(own)]
        sentences.append(chance.choice(_FORMS).format(*chance.sample(words, 3)))
    return Example({"text": Text(" . ".join(sentences))}, labels=tuple(sorted(topic for topic, _, _ in told)))


def _topics() -> list[tuple[str, list[str], list[str]]]:
    """Each topic, the words of its group, and its own."""
    found = []
    for line in _GROUPS.strip().splitlines():
        shared, *topics = (part.split() for part in line.split("|"))
        found += [(name, shared, own) for name, *own in topics]
    return found
