"""Exported graphs behind the interface of a network, for code that measures networks."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from limelight_bundle.values import Array
from limelight_export.execution.onnx_runner import GraphGenerationRunner, GraphSession
from limelight_export.exported_graph import ExportedGraph
from limelight_models.cards.card import Card
from limelight_models.network import Answer, Network, PromptedNetwork, StepAnswer
from limelight_models.tasks.stepping import Stepping


def graphs_as_network(graphs: Sequence[ExportedGraph], card: Card) -> Network:
    """Wrap graphs as a network that returns no maps."""
    return SinglePassGraphNetwork(graphs[0], card) if card.generation is None else GenerationGraphNetwork(graphs, card)


class SinglePassGraphNetwork(Network):
    """Network that runs a single-pass graph."""

    def __init__(self, graph: ExportedGraph, card: Card) -> None:
        super().__init__()
        self._session = GraphSession(graph)
        self._outputs = [each.name for each in card.description.outputs]

    def forward(self, **tensors: Tensor) -> Answer:
        """Answer a batch."""
        found = self._session.run(_arrays(tensors), requests={})
        return Answer({name: torch.from_numpy(found[name]) for name in self._outputs}, {})


class GenerationGraphNetwork(PromptedNetwork):
    """Network that runs the graphs of a generating model, with a prompt or an encoder."""

    def __init__(self, graphs: Sequence[ExportedGraph], card: Card) -> None:
        super().__init__()
        assert card.generation is not None and card.written is not None
        self._runner = GraphGenerationRunner(graphs, card)
        self._generation, self._written = card.generation, card.written
        # `Stepping` takes the type of states from the network's parameters.
        self.state_type = nn.Parameter(torch.zeros(0))

    def encode(self, **tensors: Tensor) -> Mapping[str, Tensor]:
        """Run the encoder graph, where there is one."""
        return _tensors(self._runner.encode(_arrays(tensors)))

    def prefill(self, token: Tensor, position: Tensor) -> Mapping[str, Tensor]:
        """Run the prefill graph."""
        names = (self._generation.token_input, self._generation.positions_input)
        return _tensors(self._runner.prefill(dict(zip(names, (token.numpy(), position.numpy()), strict=True))))

    def step(self, token: Tensor, **tensors: Tensor) -> StepAnswer:
        """Run the step graph."""
        found = _tensors(self._runner.step({**_arrays(tensors), self._generation.token_input: token.numpy()}))
        states = {each.output: found[each.output] for each in self._generation.states}
        return StepAnswer(found[self._generation.scores_output], states, {})

    def forward(self, **tensors: Tensor) -> Answer:
        """Step with the target forced; returns scores [batch, step, token]."""
        target = tensors[self._written.target_tensor]
        inputs = {name: each for name, each in tensors.items() if name != self._written.target_tensor}
        stepping, scores = Stepping(self, self._written, inputs), []
        for forced_chooser in target.unbind(1):
            scores.append(stepping.step().scores)
            stepping.token = forced_chooser
        return Answer({self._generation.scores_output: torch.stack(scores, 1)}, {})


def _arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}
