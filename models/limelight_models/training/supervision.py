"""Teaches a network where to look, beside what to answer, by examples that say so.

Supervised attention (Liu et al. 2016, eq. 11; for captions Liu, Mao, Sha and Yuille 2017) on every map that the right
places lie on, with the share of weight that `correctness` measures: that of all heads together. Gates, whose weights
sum to nothing in particular, are taught to open there and nowhere else (Kumar et al. 2016, §2.3): a share says nothing
of how far. Of places that lead to each other, each pass through the input is taught one, in their order, and the last
pass those that are left.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.maps import canonical, nested_mask_name
from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_models.attention.signals import gold_gates, gold_overlap
from limelight_models.cards.card import Card
from limelight_models.data.dataset import DataError, Example
from limelight_models.data.gold import covered
from limelight_models.network import Answer
from limelight_models.tasks.task import Batch
from limelight_models.training.correctness import Reader, asked

_LEAST = 1e-6  # of weight in all


@dataclass(frozen=True)
class _Look:
    """A query that ought to look somewhere. right: bool [key], of nested keys those of the query alone."""

    query: int
    right: Array


class SupervisedAttention:
    """Loss of weight off the gold places, over the examples of one part of a data set.

    weight: λ of that, beside the task's own loss of an example.
    Raises: DataError where no example says where to look on one of the model's maps.
    """

    def __init__(self, card: Card, examples: Sequence[Example], weight: float) -> None:
        self._card, self._examples, self._weight = card, examples, weight
        self._reader = Reader(card)
        self._maps = [each for each in card.description.maps if each.name not in card.edges and not each.features]
        self._nested = {each.name: nested_mask_name(card.description, each, card.bound()) for each in self._maps}
        self._known: dict[int, Mapping[str, Sequence[_Look]]] = {}
        if not any(any(self._of(index).values()) for index in range(len(examples))):
            raise DataError("the training part does not say where this model ought to look; leave --supervision out")

    def __call__(self, answer: Answer, batch: Batch) -> Tensor:
        """-λ log of the share of weight on the right places, or of gates λ times their cross-entropy, summed over the
        queries of a batch that ought to look somewhere: a number.
        """
        losses = [
            self._loss(each, answer.maps[each.name], [self._of(index)[each.name] for index in batch.indices])
            for each in self._maps
            if each.name in answer.maps
        ]
        return self._weight * torch.stack(losses).sum()

    def _loss(self, description: model_pb2.MapDescription, weights: Tensor, looks: Sequence[Sequence[_Look]]) -> Tensor:
        """Shapes: weights as the network has them, with the batch first; looks: of each of its instances."""
        found = [(place, look) for place, own in enumerate(looks) for look in own]
        if not found:
            return weights.new_zeros(())
        axes = self._card.map_axes[description.name]
        positions = canonical(np.arange(weights.numel()).reshape(weights.shape), axes)  # [batch, head, query, key]
        places, queries = (np.array(each) for each in zip(*((place, look.query) for place, look in found), strict=True))
        numbers = torch.from_numpy(positions[places, :, queries]).to(weights.device)
        asking = weights.reshape(-1)[numbers].abs()  # [look, head, key]
        right = np.zeros((len(found), positions.shape[-1]), np.float32)
        for row, (_, look) in zip(right, found, strict=True):
            row[: len(look.right)] = look.right
        gold = torch.from_numpy(right).to(weights)
        if not description.normalised and not description.signed:
            return len(found) * gold_gates(asking.mean(1), gold)
        shares = asking / asking.sum(-1, keepdim=True).clamp(min=_LEAST)
        return len(found) * gold_overlap(shares.mean(1), gold)

    def _of(self, index: int) -> Mapping[str, Sequence[_Look]]:
        if index not in self._known:
            example = self._examples[index]
            row = self._reader.row(example) if example.gold else None
            self._known[index] = {
                each.name: list(self._looks(each, row, example)) if row else [] for each in self._maps
            }
        return self._known[index]

    def _looks(self, description: model_pb2.MapDescription, row: Row, example: Example) -> Iterator[_Look]:
        queries, keys = row.labels[description.query_labels], row.labels[description.key_labels]
        nested = self._nested[description.name]
        for gold in example.gold:
            asking, right = asked(gold, queries, keys)
            for number, query in enumerate(asking):
                if gold.in_turn and queries.kind == attention_pb2.LABEL_KIND_HOPS:
                    end = None if number + 1 == len(asking) else number + 1
                    right = covered(keys, gold.keys[number:end] or gold.keys[-1:])
                own = _own(right, row.tensors[nested], query) if nested else right
                if own.any():
                    yield _Look(query, own)


def _own(right: Array, mask: Array, query: int) -> Array:
    """Of nested keys, which of a query's own are right. right: bool, of all keys in order; mask: [query, key of it]."""
    whole = np.zeros(np.shape(mask), bool)
    whole[np.asarray(mask, bool)] = right
    own: Array = whole[query]
    return own
