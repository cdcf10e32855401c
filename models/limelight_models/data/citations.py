"""Graphs that need no download: made-up papers that cite each other, to be sorted by topic.

A paper has a few words, most of them of its topic, and cites earlier papers, most of them of its topic. Digests of a
word of their own have words of all topics, and everybody cites them: who takes all neighbours alike learns little from
them, who looks at what a neighbour is can pass them over.
"""

import random

import numpy as np

from limelight_bundle.values import Graph
from limelight_models.data.dataset import Dataset, Example

TOPICS = ("optics", "botany", "music", "law")
_WORDS_A_TOPIC = 10
DIGEST = len(TOPICS) * _WORDS_A_TOPIC
FEATURES = DIGEST + 1
_DIGESTS = 0.25
_SHOWN = 3


def dataset(*, seed: int = 0, training: int = 60, held_out: int = 20) -> Dataset:
    """Make `training` + 2 × `held_out` graphs of 20 to 40 papers each; the seed decides all of it."""
    chance = random.Random(seed)
    examples = [example(chance) for _ in range(training + 2 * held_out)]
    test = examples[training + held_out :]
    return Dataset(
        name="Made-up citations",
        licence="none: generated",
        summary=f"Graphs of papers with words of four topics, generated from seed {seed}.",
        train=tuple(examples[:training]),
        dev=tuple(examples[training : training + held_out]),
        test=tuple(test),
        shown=tuple(each.instance for each in sorted(test, key=lambda each: len(each.labels))[:_SHOWN]),
    )


def example(chance: random.Random) -> Example:
    """One graph with the topic of each paper; digests have none to be learned."""
    count = chance.randint(20, 40)
    topics = [chance.randrange(len(TOPICS)) for _ in range(count)]
    digest = [chance.random() < _DIGESTS for _ in range(count)]
    words = np.zeros((count, FEATURES), np.float32)
    edges: set[tuple[int, int]] = set()
    for paper in range(count):
        words[paper, _words(topics[paper], digest[paper], chance)] = 1
        edges |= {(cited, paper) for cited in _cited(paper, topics, digest, chance)}
    names = tuple(f"{'digest' if each else 'paper'} {number}" for number, each in enumerate(digest))
    graph = Graph(words, np.array(sorted(edges), np.int64).reshape(-1, 2).T.copy(), None, names)
    labels = tuple("" if each else TOPICS[topic] for topic, each in zip(topics, digest, strict=True))
    return Example({"graph": graph}, labels=labels)


def _words(topic: int, digest: bool, chance: random.Random) -> list[int]:
    if digest:
        return [DIGEST, *chance.sample(range(DIGEST), 6)]
    own = chance.sample(range(topic * _WORDS_A_TOPIC, (topic + 1) * _WORDS_A_TOPIC), 2)
    return [*own, *chance.sample(range(DIGEST), 2)]


def _cited(paper: int, topics: list[int], digest: list[bool], chance: random.Random) -> set[int]:
    """Earlier papers: up to four, three of four of them of its own topic, and up to four digests."""
    earlier = [each for each in range(paper) if not digest[each]]
    alike = [each for each in earlier if topics[each] == topics[paper]]
    digests = [each for each in range(paper) if digest[each]]
    found = set(chance.sample(digests, min(len(digests), 4)))
    for _ in range(4):
        pool = alike if alike and chance.random() < 0.75 else earlier
        if pool:
            found.add(chance.choice(pool))
    return found
