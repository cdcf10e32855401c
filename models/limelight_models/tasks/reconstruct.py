"""Texts told apart without their classes, by building each again."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import normalize

from limelight_models.cards.by_example import mean
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Answer, Network
from limelight_models.tasks.task import Batch, HeldOut, Task, answers


@dataclass(frozen=True)
class Reconstruct(Task):
    """Hinge loss of what is built again, r, beside the averages of the batch's other texts (He et al. 2017, eq. 7).

    J_s = 1/n Σ_{i ≠ s} max(0, 1 - r_sᵀ z_s + r_sᵀ y_i), of the signals `rebuilt`, `found` and `average` [batch, d],
    each of length 1, as in the authors' program: else one long r would do for all texts.

    output: scores of the classes that the network finds by itself [batch, class]. No target is read.
    """

    output: str = "logits"

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        rebuilt, found, average = (normalize(answer.signals[name], dim=-1) for name in ("rebuilt", "found", "average"))
        wrong = (1 - (rebuilt * found).sum(-1, keepdim=True) + rebuilt @ average.T).clamp(min=0)
        other = ~torch.eye(len(wrong), dtype=torch.bool, device=wrong.device)
        return (wrong * other).sum(-1) / other.sum(-1).clamp(min=1), batch.target

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Purity where the examples have classes: the share right if each class that was found stands for that of most
        of its texts, as people name them in the paper; beside the most frequent class.
        """
        found: dict[int, int] = {}
        for batch, answer in answers(network, held_out):
            found |= zip(batch.indices, answer.outputs[self.output].argmax(-1).tolist(), strict=True)
        labels = [example.label for example in held_out.examples]
        if not any(labels):
            return []
        counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for index, number in found.items():
            counts[number][labels[index]] += 1
        names = {number: each.most_common(1)[0][0] for number, each in counts.items()}
        share = Counter(labels).most_common(1)[0][1] / len(labels)
        rights = mean(names[found[index]] == label for index, label in enumerate(labels))
        return [Metric.over(rights, name="purity", baseline=share, baseline_name="one class for all")]
