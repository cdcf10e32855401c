"""The interface of networks: tensors in by name; raw outputs and maps out, by name."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Answer:
    """Output of a network: raw outputs, hidden states among them, and maps, by the names of its card, batch first.

    Maps are [batch, head, query, key(, feature)]. What belongs to the nodes and edges of joined graphs has no batch
    axis: outputs [node, …], maps [edge, head]. signals: what a network's own objective reads, in training only.
    edges: int64 [edge], which query or which key each edge of a map belongs to, by the names of the card.
    """

    outputs: Mapping[str, Tensor]
    maps: Mapping[str, Tensor]
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    edges: Mapping[str, Tensor] = field(default_factory=dict)

    def to(self, device: torch.device) -> "Answer":
        """The same on another device."""
        groups = (self.outputs, self.maps, self.signals, self.edges)
        return Answer(*({name: tensor.to(device) for name, tensor in group.items()} for group in groups))


@dataclass(frozen=True)
class StepAnswer:
    """Output of one step of a generating model.

    scores: [batch, token], before softmax; `limelight_models.cards.results.NEVER` for a token that may not follow.
    states: by the `output` names of the card's generation; of one that grows, the new entry alone. maps: [batch, head,
    key(, feature)], without query axis. hidden: [batch, feature], by the names of the card.
    """

    scores: Tensor
    states: Mapping[str, Tensor]
    maps: Mapping[str, Tensor]
    hidden: Mapping[str, Tensor] = field(default_factory=dict)


class Network(nn.Module, ABC):
    """Feature model -> query model -> attention model -> output model (BF Fig. 1). config: its sizes, and limits."""

    config: Any

    @abstractmethod
    def forward(self, **tensors: Tensor) -> Answer:
        """Answer a batch; arguments are the tensors (and masks) of the card's inputs, by name."""

    def objective(self, losses: Tensor, answer: Answer, target: Tensor) -> Tensor:
        """The training objective, from the task's loss of each term [term]: their sum, unless a network wants more."""
        return losses.sum()

    def rates(self) -> Iterable[tuple[Sequence[nn.Parameter], float]]:
        """Which parameters learn together, and how many times as fast as training's settings say."""
        return [(list(self.parameters()), 1.0)]


class GeneratingNetwork(Network):
    """A model that puts out a sequence: it encodes its input once, then steps.

    `forward` takes the target tensor as well, and answers with teacher forcing: scores [batch, step, token] in
    `outputs`, and maps with their query axis.
    """

    @abstractmethod
    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Inputs of the steps, and the initial states, by name."""

    def lens(self, vectors: Tensor, is_last: Tensor) -> tuple[Tensor, Tensor]:
        """Read the most probable tokens from hidden states; for a card that states it.

        Shapes: vectors [vector, feature], is_last BOOL [vector], of a last layer -> tokens INT64 [vector, place] and
            their log-probabilities, most probable first.
        """
        raise NotImplementedError

    @abstractmethod
    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """One step: `token` [batch] int64, and by name the states, what `encode` gave, and input masks."""


class DrawingNetwork(Network):
    """A model that draws pictures from noise.

    noise: the tensor of its noise. critic: in training, says of pictures [batch, row × column], and by name the same
    tensors as the network's, how real they are [batch].
    """

    noise: str
    critic: nn.Module


class PromptedNetwork(GeneratingNetwork):
    """A model that continues a prompt: there is nothing to encode, the prompt is read by what puts out the rest.

    What goes in: a begin token, the prompt, and what was put out so far.
    """

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        return {}

    @abstractmethod
    def prefill(self, token: Tensor, position: Tensor) -> Mapping[str, Tensor]:
        """Read many tokens at once, and their places, both [batch, token] int64: what is kept of them, by the `output`
        names of the states, an entry a token; and by name the maps over a prompt, [batch, head, token, token].
        """
