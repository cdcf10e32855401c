"""Several models in one trace, cut apart again: much of an export's time is spent once, however small the model."""

from collections.abc import Mapping, Sequence
from itertools import groupby

import onnx_ir
import torch
from torch import Tensor, nn

from export.execution import pytorch_runner
from export.execution.random_inputs import Cases, batch
from export.exported_graph import Graph
from export.interface import (
    Port,
    batch_maxima,
    edge_indices,
    input_ports,
    longest,
    map_keys,
    maxima,
    output_ports,
    switchable,
)
from export.surgery.finalise import finish
from export.tracing.example_sizes import example_sizes
from export.tracing.positional_modules import OnePass, accepted
from export.tracing.trace import trace
from models.cards.card import Card
from models.network import Network

# More in one trace gain nothing, and PyTorch's passes over a very large graph take longer than over several.
MOST = 12


class SideBySide(nn.Module):
    """Models that take the same tensors: the outputs of one after those of the other."""

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


def graphs_together(models: Mapping[str, tuple[Network, Card]]) -> dict[str, Graph]:
    """Export models that answer in one pass, each to the graph that it would have got alone, by name.

    Models that take the same input tensors are traced together, at most `MOST` of them.
    Raises: ExportError as an export does.
    """
    graphs: dict[str, Graph] = {}
    signature = {name: _signature(card) for name, (_, card) in models.items()}
    for _, alike in groupby(sorted(models, key=signature.__getitem__), key=signature.__getitem__):
        names = list(alike)
        for begin in range(0, len(names), MOST):
            graphs |= _together({name: models[name] for name in names[begin : begin + MOST]})
    return graphs


def _signature(card: Card) -> str:
    return repr((input_ports(card), sorted(maxima(card).items())))


def _together(models: Mapping[str, tuple[Network, Card]]) -> dict[str, Graph]:
    card = next(iter(models.values()))[1]
    ports = input_ports(card)
    tensors = batch(card, Cases(card).rows(example_sizes(maxima(card))))
    places = {
        name: [n for n, port in enumerate(ports) if port.name in accepted(model.forward, [port.name])]
        for name, (model, _) in models.items()
    }
    outputs = {name: output_ports(card) for name, (_, card) in models.items()}
    module = SideBySide(
        [_one_pass(*models[name], [ports[n].name for n in places[name]]) for name in models], list(places.values())
    )
    # Names of the outputs of several models meet in one graph, until it is cut.
    prefix = {name: f"model_{number}_" for number, name in enumerate(models)}
    traced = trace(
        module,
        [torch.from_numpy(tensors[port.name].copy()) for port in ports],
        ports,
        [prefix[name] + port.name for name in models for port in outputs[name]],
        batch_maxima(card),
    )
    return {
        name: _cut(traced, card, [ports[n] for n in places[name]], outputs[name], prefix[name])
        for name, (_, card) in models.items()
    }


def _one_pass(model: Network, card: Card, inputs: Sequence[str]) -> OnePass:
    names = ([each.name for each in card.description.outputs], map_keys(card))
    return OnePass(pytorch_runner.for_export(model), inputs, *names, edge_indices(card))


def _cut(traced: "onnx_ir.Model", card: Card, inputs: Sequence[Port], outputs: Sequence[Port], prefix: str) -> Graph:
    graph = onnx_ir.convenience.extract(
        traced.graph, [port.name for port in inputs], [prefix + port.name for port in outputs]
    )
    for value, port in zip(graph.outputs, outputs, strict=True):
        value.name = port.name
    cut = finish(
        onnx_ir.Model(graph, ir_version=traced.ir_version),
        inputs,
        outputs,
        longest=longest(card),
        switchable=switchable(card),
    )
    return Graph("main", "model.onnx", cut.model, tuple(inputs), tuple(outputs), cut.switches, cut.packed)
