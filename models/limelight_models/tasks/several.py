"""Any number of classes for an instance."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from limelight_bundle.values import Array
from limelight_models.cards.by_example import ratios
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Answer, Network
from limelight_models.tasks.task import Batch, HeldOut, Task, answers

_PLACES = (1, 3)


@dataclass(frozen=True)
class Several(Task):
    """Binary cross-entropy of the log-odds `output` [batch, class]; precision of the most probable.

    Targets: float32 [batch, class], 1 of those that an example has.
    """

    output: str = "logits"

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        return lambda example: np.array([label in example.labels for label in labels], np.float32)

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        scores, target = answer.outputs[self.output], batch.target
        return binary_cross_entropy_with_logits(scores, target, reduction="none").flatten(), target.flatten()

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Precision at 1 and at 3: the share of right ones among so many most probable, beside always saying the most
        frequent ones.
        """
        names = sorted({label for each in training for label in each.labels})
        counts = Counter(label for each in training for label in each.labels)
        usual = [label for label, _ in counts.most_common(max(_PLACES))]
        right: dict[int, dict[int, tuple[int, int]]] = {most: {} for most in _PLACES}
        for batch, answer in answers(network, held_out):
            best = answer.outputs[self.output].argsort(-1, descending=True).tolist()
            for index, row in zip(batch.indices, best, strict=True):
                wanted = held_out.examples[index].labels
                for most in _PLACES:
                    right[most][index] = sum(names[number] in wanted for number in row[:most]), most
        held = [each.labels for each in held_out.examples]
        guessed = {most: sum(each in labels for labels in held for each in usual[:most]) for most in _PLACES}
        return [
            Metric.over(
                ratios(right[most]),
                name=f"precision at {most}",
                baseline=guessed[most] / (most * len(held)),
                baseline_name="most frequent",
            )
            for most in _PLACES
        ]
