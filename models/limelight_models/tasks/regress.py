"""Numbers for an instance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from limelight_bundle.values import Array
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Answer, Network
from limelight_models.tasks.task import Batch, HeldOut, Task, answers


@dataclass(frozen=True)
class Regress(Task):
    """Squared error of the numbers `output` [batch, number], averaged over the numbers; mean absolute error.

    Targets: float32 [batch, number].
    """

    output: str = "values"

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        return lambda example: np.array(example.numbers, np.float32)

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        return (answer.outputs[self.output] - batch.target).square().mean(-1), batch.target

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Mean absolute error beside that of always answering the training part's mean."""
        mean = torch.tensor([example.numbers for example in training]).mean(0)
        off, base, count = 0.0, 0.0, 0
        for batch, answer in answers(network, held_out):
            off += float((answer.outputs[self.output] - batch.target).abs().mean(-1).sum())
            base += float((mean - batch.target).abs().mean(-1).sum())
            count += len(batch.target)
        return [
            Metric(
                name="mean absolute error",
                value=off / count,
                baseline=base / count,
                baseline_name="mean of the training part",
            )
        ]
