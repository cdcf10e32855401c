"""A class for each part of an instance: each token of a text, each node of a graph."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from limelight_bundle.values import Array
from limelight_models.cards.by_example import mean, ratios
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Answer, Network
from limelight_models.tasks.task import UNKNOWN, Batch, HeldOut, Task, answers


@dataclass(frozen=True)
class Tag(Task):
    """Cross-entropy of the scores `output` [batch, part, class], over the parts whose class is known; accuracy.

    joined: instances lie one after the other, [part of all, class], as graphs of a batch do, and are not padded.
    Targets: int64 [batch, part] or [part of all], -1 where no class is known or there is padding.
    """

    output: str = "logits"
    joined: bool = False

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        numbers = {label: number for number, label in enumerate(labels)}
        return lambda example: np.array([numbers.get(label, UNKNOWN) for label in example.labels], np.int64)

    def stack(self, targets: Sequence[Array]) -> Tensor:
        if self.joined:
            return torch.from_numpy(np.concatenate(targets))
        stacked = np.full((len(targets), max(map(len, targets)), *targets[0].shape[1:]), UNKNOWN, np.int64)
        for place, target in zip(stacked, targets, strict=True):
            place[: len(target)] = target
        return torch.from_numpy(stacked)

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        scores, target = self.known(answer, batch)
        return cross_entropy(scores, target, reduction="none"), target

    def known(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        """Scores [part, class] and classes [part] of the known parts; what an instance was cut by has no scores."""
        scores, target = answer.outputs[self.output], batch.target
        if not self.joined:
            most = min(scores.shape[1], target.shape[1])
            scores, target = scores[:, :most], target[:, :most]
        known = target != UNKNOWN
        return scores[known], target[known]

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Accuracy over known parts, beside that of always answering the training part's most frequent class."""
        rights: dict[int, list[bool]] = {}
        for batch, answer in answers(network, held_out):
            sizes = [len(held_out.examples[index].labels) if self.joined else 1 for index in batch.indices]
            for index, scored, named in zip(
                batch.indices, answer.outputs[self.output].split(sizes), batch.target.split(sizes), strict=True
            ):
                scores, target = self.known(Answer({self.output: scored}, {}), replace(batch, target=named))
                rights[index] = (scores.argmax(-1) == target).tolist()
        if self.joined:  # a graph is often the only one
            found = mean(chain.from_iterable(rights[index] for index in sorted(rights)))
        else:
            found = ratios({index: (sum(each), len(each)) for index, each in rights.items()})
        majority = Counter(label for example in training for label in example.labels if label).most_common(1)[0][0]
        wanted = [label for example in held_out.examples for label in example.labels if label]
        share = wanted.count(majority) / len(wanted)
        return [Metric.over(found, name="accuracy", baseline=share, baseline_name="majority class")]
