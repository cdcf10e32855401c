"""A model in PyTorch, with NumPy arrays by name in and out: what every answer is compared with."""

import copy
from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from bundle.values import Array
from export.errors import ExportError
from export.interface import check_rank, edge_indices, map_keys, map_port, output_ports
from export.tracing.positional_modules import accepted, pick
from models.cards.card import Card
from models.network import GeneratingNetwork, Network, PromptedNetwork, StepAnswer


def for_export(model: Network) -> Network:
    """Copy a model to the CPU, in evaluation mode and without gradients; the trained one stays as it is."""
    return copy.deepcopy(model).cpu().eval().requires_grad_(False)


def to_torch(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Copy arrays into tensors."""
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


def answer(model: Network, card: Card, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Answer a batch in one pass: outputs, maps and the ends of their edges, by name."""
    taken = accepted(model.forward, list(tensors))
    with torch.no_grad():
        found = model(**to_torch({name: tensors[name] for name in taken}))
    outputs = [each.name for each in card.description.outputs]
    maps = map_keys(card)
    edges = edge_indices(card)
    arrays = {
        **_arrays(outputs, pick(found.outputs, outputs, "output")),
        **_arrays(maps, pick(found.maps, maps, "map")),
        **_arrays(edges, pick(found.edges, edges, "index of edges")),
    }
    for port in output_ports(card):
        check_rank(port, arrays[port.name])
    return arrays


class TorchParts:
    """The two parts of a generating model."""

    def __init__(self, model: Network, card: Card) -> None:
        if not isinstance(model, GeneratingNetwork) or card.generation is None:
            raise ExportError("a card with `generation` belongs to a GeneratingNetwork, and only to one")
        self.model, self.card, self.generation = model, card, card.generation

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """What the steps read, and the initial states."""
        taken = accepted(self.model.encode, list(tensors))
        with torch.no_grad():
            found = self.model.encode(**to_torch({name: tensors[name] for name in taken}))
        return {name: tensor.numpy() for name, tensor in found.items()}

    def prefill(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """What is kept of many tokens."""
        if not isinstance(self.model, PromptedNetwork):
            raise ExportError("a card with a prompt belongs to a PromptedNetwork")
        token, position = self.generation.token_input, self.generation.positions_input
        given = to_torch({name: tensors[name] for name in (token, position)})
        with torch.no_grad():
            found = self.model.prefill(given[token], given[position])
        states = [each.output for each in self.generation.states]
        return _arrays(states, pick(found, states, "state"))

    def step(self, tensors: Mapping[str, Array], *, maps: Collection[str] | None = None) -> dict[str, Array]:
        """Scores, states and maps of one step, by the names that the graph has for them.

        maps: those that the step must give; None for whatever it gives.
        """
        names = [name for name in tensors if name != self.generation.token_input]
        token = torch.from_numpy(np.array(tensors[self.generation.token_input]))
        taken = accepted(self.model.step, names)
        with torch.no_grad():
            found: StepAnswer = self.model.step(token, **to_torch({name: tensors[name] for name in taken}))
        states = [each.output for each in self.generation.states]
        maps = [each.name for each in self.card.description.maps if each.name in (found.maps if maps is None else maps)]
        arrays = {
            self.generation.scores_output: found.scores.numpy(),
            **_arrays(states, pick(found.states, states, "state")),
            **_arrays(maps, pick(found.maps, maps, "map")),
        }
        for each in self.card.description.maps:
            if each.name in arrays:
                check_rank(map_port(self.card, each), arrays[each.name])
        return arrays


def _arrays(names: list[str], tensors: list[Tensor]) -> dict[str, Array]:
    return {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
