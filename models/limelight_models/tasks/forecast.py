"""Numbers for each node of a graph: the next steps of a signal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from limelight_bundle.values import Array
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import DataError, Example
from limelight_models.network import Answer, Network
from limelight_models.tasks.task import Batch, HeldOut, Task, answers


@dataclass(frozen=True)
class Forecast(Task):
    """Absolute error of the output `forecast` [node of all, step], each node and step a term.

    signal: the tensor of what is known [node of all, step], of which the last step is the newest.
    Targets: float32 [node of all, step].
    """

    output: str = "forecast"
    signal: str = "nodes"

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        return numbers_of

    def stack(self, targets: Sequence[Array]) -> Tensor:
        return torch.from_numpy(np.concatenate(targets))

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        return (answer.outputs[self.output] - batch.target).abs().flatten(), batch.target.flatten()

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Mean absolute error over all nodes and steps, and of the last step alone, beside those of a signal that stays
        as it is.
        """
        found = [
            torch.stack([(said - batch.target).abs().sum(0) for said in (answer.outputs[self.output], stays)])
            for batch, answer in answers(network, held_out)
            for stays in [batch.tensors[self.signal][:, -1:].expand_as(batch.target)]
        ]
        nodes = sum(len(numbers_of(each)) for each in held_out.examples)
        errors = torch.stack(found).sum(0) / nodes  # [the network's or the last value's, step]
        return [
            Metric(name=name, value=float(own), baseline=float(stays), baseline_name="the last value")
            for name, (own, stays) in {
                "mean absolute error": errors.mean(-1),
                "mean absolute error, last step": errors[:, -1],
            }.items()
        ]


def numbers_of(example: Example) -> Array:
    """What is to be forecast. Raises: DataError where an example does not say it."""
    if example.numbers is None:
        raise DataError("an example has no numbers to be forecast")
    return example.numbers
