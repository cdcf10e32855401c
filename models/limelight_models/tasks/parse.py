"""A class for each word, from a network one of whose heads learns on which word each word depends."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from limelight_bundle.values import Array
from limelight_models.attention.signals import syntax_head_loss
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.data.gold import Span
from limelight_models.network import Answer, Network
from limelight_models.tasks.tag import Tag
from limelight_models.tasks.task import UNKNOWN, Also, Batch, HeldOut, answers, nothing


class Parser(Protocol):
    """A network of which a head parses. parses: the map [batch, head, word, word] whose first head does."""

    @property
    def parses(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Parse(Tag):
    """Tagging by a `Parser`, whose head is taught the heads of words (I3; Strubell et al. 2018, §2.2).

    weight: of that loss a word, beside the class's own; 0 teaches nothing. figure: what the share of words is called
    whose own head is found. beside: what always takes the word so many places on, which it is compared with.
    Targets: int64 [batch, word, 2], the class and the word that a word depends on, itself for a root; -1 where it is
    not known.
    """

    weight: float = 1.0
    figure: str = "unlabelled attachment"
    beside: tuple[str, int] = ("the next word", 1)

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        of_classes = super().reader(labels)
        return lambda example: np.stack([of_classes(example), heads_of(example)], -1)

    def known(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        return super().known(answer, replace(batch, target=batch.target[..., 0]))

    def loss(self, network: Network, batch: Batch, also: Also = nothing) -> tuple[Tensor, int]:
        def with_heads(answer: Answer, batch: Batch) -> Tensor | float:
            weights, parents = looks(network, answer, batch)
            price = self.weight * int((parents != UNKNOWN).sum())
            return also(answer, batch) + price * syntax_head_loss(weights, parents)

        return super().loss(network, batch, with_heads)

    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Accuracy of the classes; the share of words on whose own head the first head has most weight."""
        metrics = super().judge(network, card, held_out, training)
        words = right = by_place = 0
        beside, away = self.beside
        for batch, answer in answers(network, held_out):
            weights, parents = looks(network, answer, batch)
            words += int((parents != UNKNOWN).sum())
            right += int((weights[:, 0].argmax(-1) == parents).sum())
            by_place += int((torch.arange(away, parents.shape[1] + away) == parents).sum())
        if words:
            share, guessed = right / words, by_place / words
            metrics.append(Metric(name=self.figure, value=share, baseline=guessed, baseline_name=beside))
        return metrics


def looks(network: Network, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
    """The map that parses, and the heads of as many words as it has, int64 [batch, word]."""
    weights, heads = answer.maps[cast(Parser, network).parses], batch.target[..., 1]
    return weights, pad(heads, (0, weights.shape[-1] - heads.shape[1]), value=UNKNOWN)


def heads_of(example: Example) -> Array:
    """On which word each word depends, as the example's gold has it: int64 [word], -1 where it says nothing."""
    found = np.full(len(example.labels), UNKNOWN, np.int64)
    for gold in example.gold:
        match gold.of, gold.keys:
            case Span(sentence=int(word)), [Span(sentence=int(head))]:
                found[word] = head
    return found
