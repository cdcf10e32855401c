"""From examples to batches of tensors, by the same preprocessing as in serving."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bundle.errors import InputError
from bundle.preprocess import Preprocessor
from bundle.rows import Row, collate, tensor_descriptions
from bundle.v1 import bundle_pb2
from models.cards.card import Card
from models.data.dataset import DataError, Example

_BUCKET = 50  # so many batches are drawn, sorted by length, and cut: little padding, and still chance


@dataclass(frozen=True)
class Batch:
    """Examples as tensors. indices: which examples. classes: int64 [batch], -1 where a label is not known."""

    tensors: dict[str, Tensor]
    indices: tuple[int, ...]
    classes: Tensor


class Batches:
    """The batches of one part of a data set.

    Raises: DataError where an example cannot be read by the model's preprocessing.
    """

    def __init__(self, card: Card, examples: Sequence[Example], *, batch_size: int) -> None:
        self.examples = examples
        self._batch_size = batch_size
        self._descriptions = list(tensor_descriptions(card.description.inputs))
        self._rows = make_rows(card, examples)
        labels = {label: number for number, label in enumerate(card.description.result.classes.labels)}
        self._classes = [labels.get(example.label, -1) for example in examples]

    def __len__(self) -> int:
        return -(-len(self._rows) // self._batch_size)

    def shuffled(self, seed: int, epoch: int) -> list[tuple[int, ...]]:
        """The batches of an epoch, as indices: the same for the same seed and epoch, whatever came before."""
        chance = random.Random(f"{seed}/{epoch}")
        order = list(range(len(self._rows)))
        chance.shuffle(order)
        size = self._batch_size * _BUCKET
        batches = [batch for begin in range(0, len(order), size) for batch in self._cut(order[begin : begin + size])]
        chance.shuffle(batches)
        return batches

    def in_order(self) -> Iterator[Batch]:
        """Every example once, by length."""
        for indices in self._cut(list(range(len(self._rows)))):
            yield self.batch(indices)

    def batch(self, indices: Sequence[int]) -> Batch:
        """Pad and stack some examples."""
        arrays = collate([self._rows[index] for index in indices], self._descriptions)
        classes = torch.tensor([self._classes[index] for index in indices])
        return Batch({name: torch.from_numpy(array) for name, array in arrays.items()}, tuple(indices), classes)

    def _cut(self, indices: list[int]) -> list[tuple[int, ...]]:
        by_length = sorted(indices, key=lambda index: length(self._rows[index]))
        return [
            tuple(by_length[begin : begin + self._batch_size]) for begin in range(0, len(by_length), self._batch_size)
        ]


def length(row: Row) -> tuple[int, ...]:
    """What rows of one batch should agree in: the sizes of all axes, outermost first."""
    return tuple(row.sizes.values())


def make_rows(card: Card, examples: Sequence[Example]) -> list[Row]:
    """Preprocess examples; too long ones are cut."""
    preprocessor = preprocessor_of(card)
    rows = []
    for number, example in enumerate(examples):
        try:
            row = preprocessor.row(example.instance, field=f"example {number}: ", truncate=True)
        except InputError as error:
            raise DataError(f"{error.field} {error.message}") from error
        rows.append(Row(row.tensors, row.sizes))  # nobody reads labels here, and they are large
    return rows


def preprocessor_of(card: Card) -> Preprocessor:
    """The preprocessing that a bundle of this card will declare."""
    bundle = bundle_pb2.Bundle(description=card.description, preprocessing=card.preprocessing)
    return Preprocessor.from_parts(bundle, card.files)
