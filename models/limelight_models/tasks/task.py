"""The interface of tasks: from examples to targets, from answers to losses, from held-out examples to figures."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from limelight_bundle.rows import Row
from limelight_bundle.values import Array
from limelight_models.cards.card import Card, Metric
from limelight_models.data.dataset import Example
from limelight_models.network import Answer, Network

UNKNOWN = -1  # in targets of classes: no class is known
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Batch:
    """Examples as tensors. indices: which examples. target: what the task made of what is known of them."""

    tensors: dict[str, Tensor]
    indices: tuple[int, ...]
    target: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        tensors = {name: tensor.to(device) for name, tensor in self.tensors.items()}
        return Batch(tensors, self.indices, self.target.to(device))


class HeldOut(Protocol):
    """Examples to be judged by."""

    examples: Sequence[Example]

    def in_order(self) -> Iterator[Batch]:
        """Every example once."""


# What else an answer to a batch costs, summed.
Also = Callable[[Answer, Batch], Tensor | float]


def nothing(answer: Answer, batch: Batch) -> float:
    """It costs nothing else."""
    return 0.0


class Task(ABC):
    """One convention for all: a loss a term, of which the network makes what is minimised (`Network.objective`)."""

    def reader(self, labels: Sequence[str]) -> Callable[[Example], Array]:
        """From an example to its target, `labels` being the classes in order. By default there is none."""
        return lambda example: np.zeros(0, np.float32)

    def place(self, target: Array, row: Row) -> Array:
        """A target in the terms of the preprocessed example, which has its labels. By default it is the same."""
        return target

    def stack(self, targets: Sequence[Array]) -> Tensor:
        """The targets of a batch as one tensor."""
        return torch.from_numpy(np.stack(targets))

    @abstractmethod
    def losses(self, answer: Answer, batch: Batch) -> tuple[Tensor, Tensor]:
        """The loss of each term [term], and the target of each."""

    @abstractmethod
    def judge(self, network: Network, card: Card, held_out: HeldOut, training: Sequence[Example]) -> list[Metric]:
        """Measure on held-out examples, beside a trivial baseline where there is one."""

    def standing(self, network: Network, dev: HeldOut, training: Sequence[Example], loss: float) -> float:
        """The figure by which weights are kept, the lowest on the dev part: the loss, unless that says little."""
        return loss

    def loss(self, network: Network, batch: Batch, also: Also = nothing) -> tuple[Tensor, int]:
        """The loss summed over the terms of a batch, and their number. also: is added to the loss."""
        answer = network(**batch.tensors)
        losses, target = self.losses(answer, batch)
        return network.objective(losses, answer, target) + also(answer, batch), len(losses)


def answers(network: Network, held_out: HeldOut) -> Iterator[tuple[Batch, Answer]]:
    """Every batch with its answer, without gradients; on the CPU, where figures are made of them."""
    with torch.no_grad():
        for batch in held_out.in_order():
            yield batch.to(CPU), network(**batch.tensors).to(CPU)
