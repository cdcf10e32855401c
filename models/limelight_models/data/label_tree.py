"""A tree over labels: those that stand on alike texts together, in clusters of about the same size."""

from collections.abc import Sequence

import numpy as np

from limelight_bundle.values import Array

_ROUNDS = 10


def clusters(texts: Sequence[str], labels: Sequence[Sequence[int]], count: int, most: int) -> tuple[int, ...]:
    """The cluster of each label, by balanced 2-means, again and again (Prabhu et al. 2018; You et al. 2019, §3.2).

    texts, labels: of examples, the numbers of each one's labels. count: how many labels there are. most: of a cluster.
    A label is the sum of its texts' words, weighed by how few texts have them, of length 1.
    """
    words = {word: number for number, word in enumerate(sorted({word for text in texts for word in text.split()}))}
    rows = np.zeros((len(texts), len(words)))
    for row, text in zip(rows, texts, strict=True):
        row[[words[word] for word in set(text.split())]] = 1
    rows *= np.log(len(texts) / np.maximum(rows.sum(0), 1))
    features = np.zeros((count, len(words)))
    for row, numbers in zip(rows, labels, strict=True):
        features[list(numbers)] += row
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    found = np.zeros(count, np.int64)
    for number, members in enumerate(_parted(features, np.arange(count), most)):
        found[members] = number
    return tuple(found.tolist())


def _parted(features: Array, members: Array, most: int) -> list[Array]:
    """Halves of halves, until none has more than `most` members."""
    if len(members) <= most:
        return [members]
    own = features[members]
    centre = own[0]
    other = own[np.argmin(own @ centre)]
    for _ in range(_ROUNDS):
        order = np.argsort(own @ (other - centre), kind="stable")  # the first half is nearer to the centre
        near, far = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        centre, other = own[near].mean(0), own[far].mean(0)
    return [part for half in (near, far) for part in _parted(features, members[half], most)]
