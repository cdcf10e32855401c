"""Figures of each head, where a map has several: entropy of its weights, and their places.

Shares of weight by the distance from query to key tell which heads look at neighbours (the positional heads of Voita et
al. 2019); where it is known where to look, the share on the right place tells which head does.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from limelight_bundle.values import Array
from limelight_models.cards.card import Card
from limelight_models.network import Network
from limelight_models.tasks.task import HeldOut
from limelight_models.training.correctness import Tally, add, looks

_OFFSETS = (-1, 0, 1)


@dataclass(frozen=True, kw_only=True)
class Head:
    """One head of a map, on the mean over queries.

    bits: entropy of its weights. before, at, after: weight on the key just before the query's own place, at it, and
    just after it; in a decoder's map of itself, the place of a query is that of the token that went in last. right:
    weight on the right place, None where none is known.
    """

    map: str
    head: int
    bits: float
    before: float
    at: float
    after: float
    right: float | None = None


@dataclass
class _Sums:
    """Of one map, by head."""

    count: int = 0
    bits: Array | float = 0.0
    shares: Array | float = 0.0

    def add(self, weights: Array) -> None:
        """Add what an example's queries have [head, query, key]."""
        sizes = np.abs(weights)
        total = sizes.sum(-1, keepdims=True)
        shares = np.divide(sizes, total, out=np.zeros_like(sizes), where=total > 0)
        logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
        self.count += weights.shape[1]
        self.bits = self.bits - (shares * logs).sum((1, 2))
        self.shares = self.shares + np.stack([np.trace(shares, each, 1, 2) for each in _OFFSETS])

    def heads(self, name: str, right: Array | None) -> list[Head]:
        """The means."""
        bits, shares = np.asarray(self.bits) / self.count, np.asarray(self.shares) / self.count
        return [
            Head(
                map=name,
                head=number,
                bits=float(bits[number]),
                **{each: float(shares[place, number]) for place, each in enumerate(("before", "at", "after"))},
                right=None if right is None else float(right[number]),
            )
            for number in range(len(bits))
        ]


def specialisation(network: Network, card: Card, held_out: HeldOut) -> list[Head]:
    """Every head of every map that has several; nothing where no map has."""
    several = {each.name: each for each in card.description.maps if each.heads > 1 and each.name not in card.edges}
    if not several:
        return []
    sums, tallies = {name: _Sums() for name in several}, {name: Tally() for name in several}
    for index, row, found in looks(network, card, held_out, list(several.values())):
        for name, (weights, there) in found.items():
            queries, keys = (row.labels[each] for each in (several[name].query_labels, several[name].key_labels))
            sums[name].add(weights)
            add(tallies[name], weights, there, queries, keys, held_out.examples[index])
    return [
        head
        for name, each in sums.items()
        if each.count
        for head in each.heads(name, tallies[name].weight if tallies[name].count else None)
    ]


def as_json(heads: Sequence[Head]) -> list[dict[str, Any]]:
    """For a run's record: four decimals, and nothing of what is not known."""
    known = ({key: value for key, value in asdict(head).items() if value is not None} for head in heads)
    return [
        {key: round(value, 4) if isinstance(value, float) else value for key, value in each.items()} for each in known
    ]
