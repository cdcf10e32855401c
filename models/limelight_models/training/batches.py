"""From examples to batches of tensors, by the same preprocessing as in serving, as they are needed."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from limelight_bundle.errors import InputError
from limelight_bundle.rows import Row
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_models.cards.card import Card
from limelight_models.data.dataset import DataError, Example
from limelight_models.tasks.task import CPU, Batch, Task

_BUCKET = 50  # so many batches are drawn, sorted by length, and cut: little padding, and still chance
# Noise: how it is drawn, and what draws the most likely, as a server does without a seed.
_NOISE: Mapping[int, tuple[Callable[[tuple[int, ...]], Tensor], float]] = {
    bundle_pb2.DISTRIBUTION_UNIFORM: (torch.rand, 0.5),
    bundle_pb2.DISTRIBUTION_NORMAL: (torch.randn, 0.0),
}


class _Read(NamedTuple):
    """An example as its model reads it, and its target."""

    row: Row
    target: Array


class Batches:
    """The batches of one part of a data set, on a device: no more of it than `_BUCKET` batches is ever tensors.

    Raises: DataError where an example cannot be read by the model's preprocessing.
    """

    def __init__(
        self,
        card: Card,
        task: Task,
        examples: Sequence[Example],
        *,
        labels: Sequence[str],
        batch_size: int,
        device: torch.device = CPU,
    ) -> None:
        self.examples = examples
        self._card, self._task, self._batch_size, self._device = card, task, batch_size, device
        self._target = task.reader(labels)
        self._preprocessor = card.preprocessor()

    def __len__(self) -> int:
        size = self._batch_size * _BUCKET
        whole, rest = divmod(len(self.examples), size)
        return whole * _BUCKET - (-rest // self._batch_size)

    def shuffled(self, seed: int, epoch: int, *, done: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, but for the first `done`: the same for the same seed and epoch.

        Noise is drawn from torch's generator, on the CPU wherever the batches are to go.
        """
        chance = random.Random(f"{seed}/{epoch}")
        order = list(range(len(self.examples)))
        chance.shuffle(order)
        size = self._batch_size * _BUCKET
        for begin in range(0, len(order), size):
            bucket = order[begin : begin + size]
            count = -(-len(bucket) // self._batch_size)
            places = list(range(count))
            chance.shuffle(places)
            if done >= count:
                done -= count
                continue
            read = {index: self._read(index) for index in bucket}
            cut = self._cut(read)
            for place in places[done:]:
                yield self._batch({index: read[index] for index in cut[place]}, draw=True)
            done = 0

    def in_order(self) -> Iterator[Batch]:
        """Every example once, by length within a bucket; noise is neutral."""
        size = self._batch_size * _BUCKET
        for begin in range(0, len(self.examples), size):
            read = {index: self._read(index) for index in range(begin, min(begin + size, len(self.examples)))}
            for indices in self._cut(read):
                yield self._batch({index: read[index] for index in indices}, draw=False)

    def _cut(self, read: dict[int, _Read]) -> list[list[int]]:
        by_length = sorted(read, key=lambda index: tuple(read[index].row.sizes.values()))
        return [by_length[begin : begin + self._batch_size] for begin in range(0, len(by_length), self._batch_size)]

    def _batch(self, read: dict[int, _Read], *, draw: bool) -> Batch:
        """Pad and stack."""
        rows = [each.row for each in read.values()]
        arrays = self._card.collate(rows)
        tensors: dict[str, Tensor] = {name: torch.from_numpy(array) for name, array in arrays.items()}
        shapes = self._card.noise_shapes(rows)
        for each in self._card.noise:
            drawn, neutral = _NOISE[each.distribution]
            shape = shapes[each.tensor.name]
            tensors[each.tensor.name] = drawn(shape) if draw else torch.full(shape, neutral)
        target = self._task.stack([each.target for each in read.values()])
        return Batch(tensors, tuple(read), target).to(self._device)

    def _read(self, index: int) -> _Read:
        """Preprocess an example; a too long one is cut."""
        try:
            row = self._preprocessor.row(self.examples[index].instance, field=(f"example {index}: ",), truncate=True)
        except InputError as error:
            raise DataError(f"{error.field} {error.message}") from error
        target = self._task.place(self._target(self.examples[index]), row)
        return _Read(Row(row.tensors, row.sizes), target)  # nobody reads labels from here on, and they are large
