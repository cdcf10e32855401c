"""Builds the ONNX graphs of a model from its network and card."""

from dataclasses import replace

import torch

from limelight_bundle.interventions import INTERVENED_GRAPH
from limelight_export.execution import pytorch_runner
from limelight_export.execution.positional_modules import SinglePassModule, accepted_arguments
from limelight_export.execution.random_inputs import RandomInputs, batch_sizes, collate_rows
from limelight_export.exported_graph import ExportedGraph
from limelight_export.interface import (
    check_tensor,
    edge_index_names,
    gated_names,
    input_specs,
    intervened_maps,
    joined_axes,
    map_keys,
    max_axis_size,
    max_batch_sizes,
    max_sizes,
    optional_map_axes,
    output_specs,
    raw_outputs,
    value_axes,
)
from limelight_export.surgery.finalise import finalise
from limelight_export.tracing.example_sizes import example_sizes
from limelight_export.tracing.generating_model import build_generation_graphs
from limelight_export.tracing.trace import trace
from limelight_models.cards.card import Card
from limelight_models.network import Network


def build_graphs(model: Network, card: Card, *, interventions: bool = False) -> list[ExportedGraph]:
    """Trace a model (a copy by `pytorch_runner.copy_for_export`) to the graphs of its bundle.

    Args:
        interventions: add graphs for interventions, where a map takes them.

    Raises:
        ExportError: PyTorch cannot export the model, an axis was frozen, or an output differs from the card.
    """
    if card.generation is not None:
        return build_generation_graphs(model, card, interventions=interventions)
    sizes = example_sizes(max_sizes(card))
    rows = RandomInputs(card).rows(sizes)
    tensors, sizes = collate_rows(card, rows), batch_sizes(rows, joined_axes(card))
    answered = pytorch_runner.run_model(model, card, tensors)
    outputs = output_specs(card)
    for spec in outputs:
        check_tensor(spec, answered[spec.name], sizes)
    names = accepted_arguments(model.forward, list(tensors))
    inputs = [spec for spec in input_specs(card) if spec.name in names]
    module = SinglePassModule(
        model,
        [spec.name for spec in inputs],
        [each.name for each in raw_outputs(card)],
        map_keys(card),
        edge_index_names(card),
    )
    arguments = [torch.from_numpy(tensors[spec.name].copy()) for spec in inputs]
    traced = trace(module, arguments, inputs, [spec.name for spec in outputs], max_batch_sizes(card))
    finished = finalise(
        traced,
        inputs,
        outputs,
        max_axis_size=max_axis_size(card),
        optional_map_axes=optional_map_axes(card),
        gated=gated_names(card),
        derived=card.derived_maps,
        value_axes=value_axes(card),
    )
    main = ExportedGraph(
        "main",
        "model.onnx",
        finished.model,
        tuple(inputs),
        tuple(outputs),
        finished.optional_maps,
        finished.packing_masks,
        gated=tuple(gated_names(card)),
        values=finished.values,
    )
    maps = intervened_maps(card) if interventions else {}
    if not maps:
        return [main]
    changed = finalise(
        traced,
        inputs,
        outputs,
        max_axis_size=max_axis_size(card),
        intervened_maps=maps,
        gated=main.gated,
        derived=card.derived_maps,
        value_axes=value_axes(card),
    )
    if not changed.interventions:
        return [main]
    second = replace(
        main,
        name=INTERVENED_GRAPH,
        file=f"{INTERVENED_GRAPH}.onnx",
        model=changed.model,
        optional_maps={},
        interventions=changed.interventions,
        values=changed.values,
    )
    return [main, second]
