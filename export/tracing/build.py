"""From a model and its card to ONNX graphs."""

import torch

from export.execution import pytorch_runner
from export.execution.random_inputs import Cases, batch, batch_sizes
from export.exported_graph import Graph
from export.interface import (
    batch_maxima,
    check_port,
    edge_indices,
    input_ports,
    joined_axes,
    longest,
    map_keys,
    maxima,
    output_ports,
    switchable,
)
from export.surgery.finalise import finish
from export.tracing.example_sizes import example_sizes
from export.tracing.generating_model import build_parts
from export.tracing.positional_modules import OnePass, accepted
from export.tracing.trace import trace
from models.cards.card import Card
from models.network import Network


def build_graphs(model: Network, card: Card) -> list[Graph]:
    """Export a model, as `pytorch_runner.for_export` gives it, to the graphs of its bundle.

    Raises: ExportError where PyTorch cannot export it, an axis that varies was frozen, or the model does not answer as
    its card states.
    """
    if card.generation is not None:
        return build_parts(model, card)
    sizes = example_sizes(maxima(card))
    rows = Cases(card).rows(sizes)
    tensors, sizes = batch(card, rows), batch_sizes(rows, joined_axes(card))
    answered = pytorch_runner.answer(model, card, tensors)
    outputs = output_ports(card)
    for port in outputs:
        check_port(port, answered[port.name], sizes)
    names = accepted(model.forward, list(tensors))
    inputs = [port for port in input_ports(card) if port.name in names]
    module = OnePass(
        model,
        [port.name for port in inputs],
        [each.name for each in card.description.outputs],
        map_keys(card),
        edge_indices(card),
    )
    arguments = [torch.from_numpy(tensors[port.name].copy()) for port in inputs]
    traced = trace(module, arguments, inputs, [port.name for port in outputs], batch_maxima(card))
    finished = finish(traced, inputs, outputs, longest=longest(card), switchable=switchable(card))
    return [
        Graph("main", "model.onnx", finished.model, tuple(inputs), tuple(outputs), finished.switches, finished.packed)
    ]
