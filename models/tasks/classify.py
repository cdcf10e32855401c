"""One class for an instance."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from bundle.values import Array
from models.cards.card import Card, Metric
from models.data.dataset import Example
from models.network import Answer, Network
from models.tasks.task import UNKNOWN, Batch, HeldOut, Task, answers


@dataclass(frozen=True)
class Classify(Task):
    """Cross-entropy of the scores `output` [batch, class]; accuracy. Where no class is known there is no loss.

    Targets: int64 [batch], -1 where no class is known.
    """

    output: str = "logits"

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        numbers = {label: number for number, label in enumerate(labels)}
        return lambda example: np.int64(numbers.get(example.label, UNKNOWN))  # type: ignore[return-value]

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        scores, target = answer.outputs[self.output], batch.target
        return cross_entropy(scores, target, reduction="none", ignore_index=UNKNOWN), target

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Accuracy beside that of always answering the training part's most frequent class."""
        right = sum(
            int((answer.outputs[self.output].argmax(-1) == batch.target).sum())
            for batch, answer in answers(network, held_out)
        )
        majority = Counter(example.label for example in training if example.label).most_common(1)[0][0]
        share = sum(example.label == majority for example in held_out.examples) / len(held_out.examples)
        value = right / len(held_out.examples)
        return [Metric(name="accuracy", value=value, baseline=share, baseline_name="majority class")]
