"""Execution of a model in PyTorch, with NumPy arrays in and out: the reference for every comparison."""

import copy
from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.positional_modules import accepted_arguments, select_tensors
from limelight_export.interface import (
    check_rank,
    edge_index_names,
    hidden_names,
    map_keys,
    map_spec,
    output_specs,
    raw_outputs,
)
from limelight_models.cards.card import Card
from limelight_models.network import GeneratingNetwork, Network, PromptedNetwork, StepAnswer


def copy_for_export(model: Network) -> Network:
    """Copy a model to the CPU, in evaluation mode and without gradients."""
    return copy.deepcopy(model).cpu().eval().requires_grad_(False)


def to_tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    """Copy arrays into PyTorch tensors."""
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}


class PyTorchReference:
    """A network as the reference of its graphs (see `Reference`)."""

    name = "PyTorch"

    def __init__(self, model: Network, card: Card) -> None:
        self._model, self._card = model, card

    def run(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Answer a batch in one pass."""
        return run_model(self._model, self._card, tensors)

    def generation_runner(self) -> "PyTorchGenerationRunner":
        """Return the parts of a generating model."""
        return PyTorchGenerationRunner(self._model, self._card)


def run_model(model: Network, card: Card, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Run a single-pass model on a batch, and return its outputs, maps and edge indices by name."""
    taken = accepted_arguments(model.forward, list(tensors))
    with torch.no_grad():
        answer = model(**to_tensors({name: tensors[name] for name in taken}))
    outputs = [each.name for each in raw_outputs(card)]
    maps = map_keys(card)
    edges = edge_index_names(card)
    arrays = {
        **_arrays(outputs, select_tensors(answer.outputs, outputs, "output")),
        **_arrays(maps, select_tensors(answer.maps, maps, "map")),
        **_arrays(edges, select_tensors(answer.edges, edges, "index of edges")),
    }
    for spec in output_specs(card):
        check_rank(spec, arrays[spec.name])
    return arrays


class PyTorchGenerationRunner:
    """Runs the parts of a generating model in PyTorch (see `GenerationRunner`)."""

    def __init__(self, model: Network, card: Card) -> None:
        if not isinstance(model, GeneratingNetwork) or card.generation is None:
            raise ExportError("a card has `generation` exactly where its model is a GeneratingNetwork")
        self.model, self.card, self.generation = model, card, card.generation

    def encode(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Run the encoder."""
        taken = accepted_arguments(self.model.encode, list(tensors))
        with torch.no_grad():
            answer = self.model.encode(**to_tensors({name: tensors[name] for name in taken}))
        return {name: tensor.numpy() for name, tensor in answer.items()}

    def prefill(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Prefill the prompt, and return the states, and the maps and hidden states that the model gives of it."""
        if not isinstance(self.model, PromptedNetwork):
            raise ExportError("a card with a prompt needs a PromptedNetwork")
        token, position = self.generation.token_input, self.generation.positions_input
        given = to_tensors({name: tensors[name] for name in (token, position)})
        with torch.no_grad():
            answer = self.model.prefill(given[token], given[position])
        states = [each.output for each in self.generation.states]
        others = (*(each.name for each in self.card.description.maps), *hidden_names(self.card))
        names = [*states, *(name for name in others if name in answer)]
        return _arrays(names, select_tensors(answer, names, "state"))

    def lens(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """Read tokens from hidden states."""
        given = to_tensors(tensors)
        with torch.no_grad():
            tokens, chances = self.model.lens(given["vectors"], given["is_last"])
        return {"tokens": tokens.numpy(), "log_probabilities": chances.numpy()}

    def step(self, tensors: Mapping[str, Array], *, maps: Collection[str] | None = None) -> dict[str, Array]:
        """Run one decode step, and return its scores, states, maps and hidden states under the graph's names.

        Args:
            maps: maps that the step must return; None for those that it returns.
        """
        names = [name for name in tensors if name != self.generation.token_input]
        token = torch.from_numpy(np.array(tensors[self.generation.token_input]))
        taken = accepted_arguments(self.model.step, names)
        with torch.no_grad():
            answer: StepAnswer = self.model.step(token, **to_tensors({name: tensors[name] for name in taken}))
        states = [each.output for each in self.generation.states]
        maps = [
            each.name for each in self.card.description.maps if each.name in (answer.maps if maps is None else maps)
        ]
        arrays = {
            self.generation.scores_output: answer.scores.numpy(),
            **_arrays(states, select_tensors(answer.states, states, "state")),
            **_arrays(maps, select_tensors(answer.maps, maps, "map")),
            **{name: tensor.numpy() for name, tensor in answer.hidden.items()},
        }
        for each in self.card.description.maps:
            if each.name in arrays:
                check_rank(map_spec(self.card, each), arrays[each.name])
        return arrays


def _arrays(names: list[str], tensors: list[Tensor]) -> dict[str, Array]:
    return {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
