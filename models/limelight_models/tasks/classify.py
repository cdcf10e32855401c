"""One class for an instance."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from limelight_bundle.values import Array, Text
from limelight_models.cards.by_example import mean
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Answer, Network
from limelight_models.tasks.task import UNKNOWN, Batch, HeldOut, Task, answers


@dataclass(frozen=True)
class Classify(Task):
    """Cross-entropy of the scores `output` [batch, class]; accuracy. Where no class is known there is no loss.

    given: the input (a question, say) whose text alone the baseline answers by; empty for one that reads nothing.
    Targets: int64 [batch], -1 where no class is known.
    """

    output: str = "logits"
    given: str = ""

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        numbers = {label: number for number, label in enumerate(labels)}
        return lambda example: np.int64(numbers.get(example.label, UNKNOWN))  # type: ignore[return-value]

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        scores, target = answer.outputs[self.output], batch.target
        return cross_entropy(scores, target, reduction="none", ignore_index=UNKNOWN), target

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Accuracy beside that of always answering what is most frequent in the training part (for the same text)."""
        found = mean(self._rights(network, held_out))
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for example in filter(lambda each: each.label, training):
            for text in {"", self._text(example)}:
                counts[text][example.label] += 1
        usual = {text: each.most_common(1)[0][0] for text, each in counts.items()}
        hits = sum(each.label == usual.get(self._text(each), usual[""]) for each in held_out.examples)
        count = len(held_out.examples)
        name = f"most frequent for the {self.given}" if self.given else "majority class"
        return [Metric.over(found, name="accuracy", baseline=hits / count, baseline_name=name)]

    def _rights(self, network: Network, held_out: HeldOut) -> dict[int, bool]:
        """Whether each example's class is found, by its index."""
        rights: dict[int, bool] = {}
        for batch, answer in answers(network, held_out):
            found = answer.outputs[self.output].argmax(-1) == batch.target
            rights |= zip(batch.indices, found.tolist(), strict=True)
        return rights

    def _text(self, example: Example) -> str:
        value = example.instance[self.given] if self.given else None
        return value.text if isinstance(value, Text) else ""
