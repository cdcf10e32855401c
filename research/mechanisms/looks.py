"""Measures of weights: their entropy, their share on the evidence, and whether the idea of the mechanism acted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from research.mechanisms.subject import Map

LEAST = 1e-6  # a weight below this counts as nothing


def shares(found: Map) -> np.ndarray:
    """The part of its row's sum that each weight has, by its size: [batch, head, query, key], features averaged."""
    size = np.abs(found.weights)
    if size.ndim == 5:
        size = size.mean(-1)
    size = np.where(found.real, size, 0)  # padded queries have weights of no meaning
    total = size.sum(-1, keepdims=True)
    return size / np.where(total > 0, total, 1)


def normalised_entropy(found: Map) -> np.ndarray:
    """H(p) / ln n of each row that looks at something, with n > 1 real keys, p = |w| / Σ|w| (catalogue N6)."""
    rows = [found]
    if found.weights.ndim == 5:
        rows = [Map(found.weights[..., feature], found.real) for feature in range(found.weights.shape[-1])]
    entropies = []
    for each in rows:
        share = shares(each)
        count = np.broadcast_to(each.real, share.shape).sum(-1)
        entropy = -(share * np.log(np.where(share > 0, share, 1))).sum(-1)
        counted = (share.sum(-1) > 0) & (count > 1)
        entropies.append(entropy[counted] / np.log(count[counted]))
    return np.concatenate(entropies)


@dataclass
class Agreement:
    """Weights against gold places, added batch by batch.

    share: of a query's weight on its right places (attention correctness, Liu et al. 2017), mean over heads; even: what
    equal weights would have. hits: the strongest key is right. aer: links to the strongest key against sure links (the
    only right place) and possible ones (Och and Ney 2003). facts: of the right places of an example, those among as
    many keys that some query has most for.
    """

    share: list[np.ndarray] = field(default_factory=list)
    even: list[np.ndarray] = field(default_factory=list)
    hits: list[np.ndarray] = field(default_factory=list)
    facts: list[np.ndarray] = field(default_factory=list)
    sure: int = 0
    agreed: int = 0

    def add(self, found: Map, gold: np.ndarray) -> None:
        """gold bool [batch, query, key]; queries without right places do not count.

        Of a map with other queries than the gold (hops), only the facts are counted.
        """
        share = shares(found).mean(1)  # [batch, query, key]
        for each, places in zip(share.max(1), gold.any(1), strict=True):
            if count := int(places.sum()):
                self.facts.append(places[np.argsort(-each, kind="stable")[:count]].mean(keepdims=True))
        if share.shape[1] != gold.shape[1]:
            return
        known = gold.any(-1)
        right = np.take_along_axis(gold, share.argmax(-1)[..., None], -1)[..., 0]
        keys = np.broadcast_to(found.real[:, 0], gold.shape).sum(-1)
        self.share.append((share * gold).sum(-1)[known])
        self.hits.append(right[known])
        self.even.append((gold.sum(-1) / np.maximum(keys, 1))[known])
        one = gold.sum(-1) == 1
        self.sure += int(one.sum() + known.sum())
        self.agreed += int(right[one].sum() + right[known].sum())

    def figures(self) -> dict[str, float]:
        """Means; none where nothing was known."""
        parts = {"share": self.share, "even": self.even, "hits": self.hits, "facts": self.facts}
        found = {name: np.concatenate(part) for name, part in parts.items() if part}
        means = {name: float(each.mean()) for name, each in found.items() if each.size}
        if self.sure:
            means["aer"] = 1 - self.agreed / self.sure
        return means


def cut(found: Map) -> np.ndarray:
    """Of the real keys, those that a query has nothing for."""
    size = np.abs(found.weights)
    real = np.broadcast_to(found.real if size.ndim == 4 else found.real[..., None], size.shape)
    return (size <= LEAST)[real]


def bound(found: Map) -> np.ndarray:
    """Of the steps after the first, those in which a key gets all that earlier steps left of 1 for it."""
    left = 1 - (np.cumsum(found.weights, 2) - found.weights)
    met = ((found.weights > 1e-3) & (found.weights >= left - 1e-3)).any(-1)
    return met[:, :, 1:][np.broadcast_to(found.real.any(-1), met.shape)[:, :, 1:]]


def stops(found: Map) -> np.ndarray:
    """Of the real queries, those that stop anywhere."""
    total = np.abs(found.weights).sum(-1)
    return (total > 0.5)[np.broadcast_to(found.real.any(-1), total.shape)]


def negative(found: Map) -> np.ndarray:
    """Of the size of all weights, that of negative ones."""
    return np.array([np.clip(-found.weights, 0, None).sum() / max(np.abs(found.weights).sum(), 1e-12)])


def by_feature(found: Map) -> np.ndarray:
    """Distance of the weights of features from their mean: half the summed difference, for each query."""
    mean = found.weights.mean(-1, keepdims=True)
    return (np.abs(found.weights - mean).sum(-2).mean(-1) / 2).ravel()


def by_head(found: Map) -> np.ndarray:
    """The same for heads."""
    share = shares(found)
    return (np.abs(share - share.mean(1, keepdims=True)).sum(-1) / 2).ravel()


def by_query(found: Map) -> np.ndarray:
    """The same for the queries (looks, hops) of a text."""
    share = shares(found)
    return (np.abs(share - share.mean(2, keepdims=True)).sum(-1) / 2).ravel()


# Did the idea act? Each a share; a mechanism of which it is below the least did not.
CHECKS: Mapping[str, Callable[[Map], np.ndarray]] = {
    "keys cut off": cut,
    "steps at their bounds": bound,
    "steps that stop": stops,
    "weight that subtracts": negative,
    "features that differ": by_feature,
    "heads that differ": by_head,
    "looks that differ": by_query,
}
ACTED = 0.01
