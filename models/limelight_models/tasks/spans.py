"""A part of a text that answers a question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_models.cards.by_example import mean
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Answer, Network
from limelight_models.tasks.task import UNKNOWN, Batch, HeldOut, Task, answers


@dataclass(frozen=True, kw_only=True)
class FindSpan(Task):
    """Cross-entropy of the scores `start` and `end` [batch, token] of an answer's first and last token, summed.

    Learns from the first of an example's answers; one that was cut off costs nothing. over: the tokens' label set.
    Targets: int64 [batch, answer, 2], first and last token, -1 where there is none.
    """

    over: str
    start: str = "start_scores"
    end: str = "end_scores"

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        return lambda example: np.array([(span.start, span.end) for span in example.spans], np.int64).reshape(-1, 2)

    def place(self, target: Array, row: Row) -> Array:
        """Characters to tokens, first and last of those that share one with the answer."""
        tokens = row.labels[self.over]
        starts, ends = np.array(tokens.starts), np.array(tokens.ends)
        placed = np.full((len(target), 2), UNKNOWN, np.int64)
        for place, (begin, end) in zip(placed, target, strict=True):
            inside = np.flatnonzero((starts < end) & (ends > begin))
            if len(inside) and end <= ends[-1]:
                place[:] = inside[0], inside[-1]
        return placed

    def stack(self, targets: Sequence[Array]) -> Tensor:
        stacked = np.full((len(targets), max(1, *map(len, targets)), 2), UNKNOWN, np.int64)
        for place, target in zip(stacked, targets, strict=True):
            place[: len(target)] = target
        return torch.from_numpy(stacked)

    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        target = batch.target[:, 0]
        ends = enumerate((self.start, self.end))
        costs = [
            cross_entropy(answer.outputs[name], target[:, side], reduction="none", ignore_index=UNKNOWN)
            for side, name in ends
        ]
        return costs[0] + costs[1], target

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Exact match, and F1 of the tokens, by where they stand; of several right answers the best counts.

        Stricter than SQuAD's figures (Rajpurkar et al. 2016, §6.1): the same words elsewhere are not the answer.
        """
        overlap: dict[int, float] = {}
        for batch, answer in answers(network, held_out):
            start, end = (answer.outputs[name].log_softmax(-1) for name in (self.start, self.end))
            together = start.unsqueeze(2) + end.unsqueeze(1)
            behind = torch.ones(together.shape[1:], dtype=torch.bool).triu()  # the last is never before the first
            best = together.masked_fill(~behind, -torch.inf).flatten(1).argmax(1)
            for index, place, wanted in zip(batch.indices, best.tolist(), batch.target.tolist(), strict=True):
                said = divmod(place, together.shape[2])
                rates = [_f1(said, (first, last)) for first, last in wanted if first != UNKNOWN]
                overlap[index] = max(rates, default=0.0)
        figures = {
            "exact match": mean({index: each == 1.0 for index, each in overlap.items()}),
            "F1": mean(overlap),
        }
        return [Metric.over(each, name=name) for name, each in figures.items()]


def _f1(said: tuple[int, int], right: tuple[int, int]) -> float:
    """2 |said ∩ right| / (|said| + |right|), of spans of tokens by their first and last."""
    both = min(said[1], right[1]) - max(said[0], right[0]) + 1
    return 2 * max(0, both) / (said[1] - said[0] + right[1] - right[0] + 2)
