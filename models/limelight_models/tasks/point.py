"""Entries of the input in the order wanted, from a network that points at them one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from limelight_bundle.values import Array
from limelight_models.cards.by_example import mean
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import DataError, Example
from limelight_models.network import Answer, Network
from limelight_models.tasks.tag import Tag
from limelight_models.tasks.task import UNKNOWN, Also, Batch, HeldOut, answers, nothing

_LEAST = 1e-20


@dataclass(frozen=True)
class Point(Tag):
    """-log of the probability [batch, place, entry] of the entry wanted at each place; how many orders are right.

    The network is told the entries before (teacher forcing), as the tensor `order`. An order shorter than the input
    ends where its first entry comes again, as that of a hull is closed.
    Targets: int64 [batch, place], -1 behind the end.
    """

    output: str = "pointers"

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        return order_of

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        probabilities, target = self.known(answer, batch)
        wanted = probabilities.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return -wanted.clamp_min(_LEAST).log(), target

    def loss(self, network: Network, batch: Batch, also: Also = nothing) -> tuple[Tensor, int]:
        told = replace(batch, tensors={**batch.tensors, "order": batch.target.clamp_min(0)})
        return super().loss(network, told, also)

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """The share of orders that are right from the first entry to the last, beside leaving all as they came."""
        rights: dict[int, bool] = {}
        as_sent = 0
        for batch, answer in answers(network, held_out):
            best = answer.outputs[self.output].argmax(-1).tolist()
            for index, found, target in zip(batch.indices, best, batch.target.tolist(), strict=True):
                wanted = [entry for entry in target if entry != UNKNOWN]
                rights[index] = found[: len(wanted)] == wanted
                as_sent += wanted == sorted(wanted)
        return [
            Metric.over(
                mean(rights[index] for index in sorted(rights)),
                name="exact match",
                baseline=as_sent / len(rights),
                baseline_name="as sent",
            )
        ]


def order_of(example: Example) -> Array:
    """The entries in order, and the first again where some are left out: int64 [place]. Raises: DataError."""
    count = max((len(value.array) for value in example.instance.values()), default=0)  # type: ignore[union-attr]
    order = [int(label) for label in example.labels]
    if not order or len(set(order)) < len(order) or not set(order) <= set(range(count)):
        raise DataError(f"an order names entries from 0 to {count - 1}, each at most once, and at least one")
    return np.array(order if len(order) == count else [*order, order[0]], np.int64)
