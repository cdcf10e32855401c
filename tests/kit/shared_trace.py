"""Traces several models at once: most of an export's time is constant, however small the model."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import onnx_ir
import torch
from torch import Tensor, nn

from limelight_export.execution import pytorch_runner
from limelight_export.execution.positional_modules import SinglePassModule, accepted_arguments
from limelight_export.execution.random_inputs import RandomInputs, collate_rows
from limelight_export.exported_graph import ExportedGraph
from limelight_export.interface import (
    TensorSpec,
    edge_index_names,
    input_specs,
    map_keys,
    max_axis_size,
    max_batch_sizes,
    max_sizes,
    optional_map_axes,
    output_specs,
)
from limelight_export.surgery.finalise import finalise
from limelight_export.tracing.example_sizes import example_sizes
from limelight_export.tracing.trace import trace
from limelight_models.cards.card import Card
from limelight_models.network import Network

# Larger traces gain nothing: PyTorch's passes over one very large graph take longer than over several.
MAX_MODELS_PER_TRACE = 12


class CombinedModels(nn.Module):
    """Models in one module; each reads its own subset of the tensors, and outputs follow one another."""

    def __init__(self, models: Sequence[nn.Module], inputs: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self._inputs = tuple(map(tuple, inputs))

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        answers = (
            model(*(tensors[place] for place in places))
            for model, places in zip(self.models, self._inputs, strict=True)
        )
        return tuple(tensor for answer in answers for tensor in answer)


def build_graphs_in_shared_traces(models: Mapping[str, tuple[Network, Card]]) -> dict[str, ExportedGraph]:
    """Build the graphs of several single-pass models, `MAX_MODELS_PER_TRACE` models in a trace.

    Models with the same input tensors share a trace. The graphs equal those of separate exports.

    Returns: the graph of each model, by name.
    Raises:
        ExportError: as for `build_graphs`.
    """
    graphs: dict[str, ExportedGraph] = {}
    signature = {name: _signature(card) for name, (_, card) in models.items()}
    for _, alike in groupby(sorted(models, key=signature.__getitem__), key=signature.__getitem__):
        names = list(alike)
        for begin in range(0, len(names), MAX_MODELS_PER_TRACE):
            graphs |= _trace_together({name: models[name] for name in names[begin : begin + MAX_MODELS_PER_TRACE]})
    return graphs


def _signature(card: Card) -> str:
    return repr((input_specs(card), sorted(max_sizes(card).items())))


def _trace_together(models: Mapping[str, tuple[Network, Card]]) -> dict[str, ExportedGraph]:
    card = next(iter(models.values()))[1]
    specs = input_specs(card)
    tensors = collate_rows(card, RandomInputs(card).rows(example_sizes(max_sizes(card))))
    places = {
        name: [n for n, spec in enumerate(specs) if spec.name in accepted_arguments(model.forward, [spec.name])]
        for name, (model, _) in models.items()
    }
    outputs = {name: output_specs(card) for name, (_, card) in models.items()}
    module = CombinedModels(
        [_single_pass(*models[name], [specs[n].name for n in places[name]]) for name in models], list(places.values())
    )
    # A prefix keeps the output names of several models apart until the graph is cut.
    prefix = {name: f"model_{number}_" for number, name in enumerate(models)}
    traced = trace(
        module,
        [torch.from_numpy(tensors[spec.name].copy()) for spec in specs],
        specs,
        [prefix[name] + spec.name for name in models for spec in outputs[name]],
        max_batch_sizes(card),
    )
    return {
        name: _extract_graph(traced, card, [specs[n] for n in places[name]], outputs[name], prefix[name])
        for name, (_, card) in models.items()
    }


def _single_pass(model: Network, card: Card, inputs: Sequence[str]) -> SinglePassModule:
    names = ([each.name for each in card.description.outputs], map_keys(card))
    return SinglePassModule(pytorch_runner.copy_for_export(model), inputs, *names, edge_index_names(card))


def _extract_graph(
    traced: "onnx_ir.Model", card: Card, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], prefix: str
) -> ExportedGraph:
    graph = onnx_ir.convenience.extract(
        traced.graph, [spec.name for spec in inputs], [prefix + spec.name for spec in outputs]
    )
    for value, spec in zip(graph.outputs, outputs, strict=True):
        value.name = spec.name
    extracted = finalise(
        onnx_ir.Model(graph, ir_version=traced.ir_version),
        inputs,
        outputs,
        max_axis_size=max_axis_size(card),
        optional_map_axes=optional_map_axes(card),
    )
    return ExportedGraph(
        "main",
        "model.onnx",
        extracted.model,
        tuple(inputs),
        tuple(outputs),
        extracted.optional_maps,
        extracted.packing_masks,
    )
