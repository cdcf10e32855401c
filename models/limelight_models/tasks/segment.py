"""A class for each cell of a picture."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from limelight_bundle.values import Array
from limelight_models.cards.by_example import ratios
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.data.gold import Box
from limelight_models.network import Network
from limelight_models.tasks.tag import Tag
from limelight_models.tasks.task import UNKNOWN, HeldOut, answers


@dataclass(frozen=True, kw_only=True)
class Segment(Tag):
    """As tagging: cross-entropy of the scores `output` [batch, cell, class]; beside accuracy, overlap with the truth.

    grid: rows and columns of cells. size: rows and columns of the pictures, in pixels. ground: the class of what is
    nothing; the others are objects.
    """

    grid: tuple[int, int]
    size: tuple[int, int]
    ground: str = "ground"

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Accuracy; the mean over classes of intersection over union, ground left out; and where boxes of objects are
        known (`Example.gold`), the mean over objects, for the smaller and the larger half of them.
        """
        labels = sorted({label for each in training for label in each.labels if label})
        ground = labels.index(self.ground)
        both: dict[int, Array] = {}
        objects: dict[int, list[tuple[float, float]]] = {}
        for batch, answer in answers(network, held_out):
            best = answer.outputs[self.output].argmax(-1)
            best = torch.where(batch.target == UNKNOWN, UNKNOWN, best)
            for index, said, true in zip(batch.indices, best.numpy(), batch.target.numpy(), strict=True):
                kinds = [(said == number, true == number) for number in range(len(labels)) if number != ground]
                both[index] = np.array([((a & b).sum(), (a | b).sum()) for a, b in kinds]).ravel()
                objects[index] = list(self._objects(held_out.examples[index], said, true, ground))
        areas = [area for each in objects.values() for area, _ in each]
        middle = float(np.median(areas)) if areas else 0.0
        figures = {"": ratios(both)}
        for name, small in (("small", True), ("large", False)):
            some = {
                index: [rate for area, rate in each if (area <= middle) == small] for index, each in objects.items()
            }
            if any(some.values()):
                figures[f", {name} objects"] = ratios({index: (sum(each), len(each)) for index, each in some.items()})
        return [
            *super().judge(network, card, held_out, training),
            *(Metric.over(each, name=f"intersection over union{name}") for name, each in figures.items()),
        ]

    def _objects(self, example: Example, said: Array, true: Array, ground: int) -> Iterator[tuple[float, float]]:
        """Each object's cells (how many, and how much of what is said in its box is right)."""
        down, across = self.size[0] / self.grid[0], self.size[1] / self.grid[1]
        said, true = said.reshape(self.grid), true.reshape(self.grid)
        for box in (place for gold in example.gold for place in gold.keys if isinstance(place, Box)):
            part = (
                slice(int(box.top // down), -int(-box.bottom // down)),
                slice(int(box.left // across), -int(-box.right // across)),
            )
            here, there = said[part], true[part]
            objects = there > UNKNOWN
            objects &= there != ground
            if objects.any():
                claimed = (here != ground) & (here != UNKNOWN)
                right = int((objects & (here == there)).sum())
                yield float(objects.sum()), right / int((objects | claimed).sum())
