"""The graphs of a generating model: one export of both parts side by side, then cut apart.

The parts are given inputs of their own, axes of their own and sizes of their own, so that the exporter finds nothing to
share between them but weights. What the step takes from the encoder gets its name back after the cut.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir
import torch

from bundle.v1 import bundle_pb2
from bundle.values import Array
from export.cases import Cases, batch
from export.errors import ExportError
from export.finish import finish
from export.flat import EncodeAndStep, accepted
from export.graph import Graph
from export.interface import BATCH, STEP, Port, input_ports, longest, map_port, maxima
from export.sizes import example_sizes, infer_axes
from export.stepping import initial_state
from export.torch_side import TorchParts
from export.trace import trace
from models.cards.card import Card
from models.network import Network

_OF_STEP = "step_"


def build_parts(model: Network, card: Card) -> list[Graph]:
    """Export a generating model to the graphs of its encoder (where its card has one) and of its step.

    Raises: ExportError where the two cannot be exported or told apart, or do not answer as the card states.
    """
    parts = TorchParts(model, card)
    generation = parts.generation
    example = _Examples(parts)
    read = accepted(parts.model.step, [port.name for port in example.step_inputs[1:]])
    step_inputs = [example.step_inputs[0], *(port for port in example.step_inputs[1:] if port.name in read)]
    module = EncodeAndStep(
        parts.model,
        [port.name for port in example.encode_inputs],
        [port.name for port in example.encoded],
        [port.name for port in step_inputs[1:]],
        [each.output for each in generation.states],
        [port.name for port in example.step_outputs if port.name in example.maps],
    )
    ports = [*example.encode_inputs, *map(_set_apart, step_inputs)]
    arguments = [
        *(example.tensors[0][port.name] for port in example.encode_inputs),
        *(example.stepped[1][port.name] for port in step_inputs),
    ]
    traced = trace(
        module,
        [torch.from_numpy(np.array(array)) for array in arguments],
        ports,
        [*(port.name for port in example.encoded), *(_OF_STEP + port.name for port in example.step_outputs)],
        maxima(card) | {_OF_STEP + axis: most for axis, most in maxima(card).items()},
    )
    step = _cut(traced, card, generation.step, step_inputs, example.step_outputs, prefix=_OF_STEP)
    if not generation.encoder:
        return [step]
    initial = {each.encoder_output for each in generation.states}
    needed = {port.name for port in step.inputs} | initial
    needed |= {each.name for each in card.description.outputs} | {each.name for each in card.description.maps}
    encoded = [port for port in example.encoded if port.name in needed]
    return [_cut(traced, card, generation.encoder, example.encode_inputs, encoded), step]


class _Examples:
    """Both parts run in PyTorch at two sizes, which shows the axes of what passes between them."""

    def __init__(self, parts: TorchParts) -> None:
        self.parts = parts
        generation = parts.generation
        sizes = self._sizes()
        cases = Cases(parts.card)
        self.tensors = [batch(parts.card, cases.rows(each)) for each in sizes]
        inputs = {port.name: port for port in input_ports(parts.card)}
        taken = accepted(parts.model.encode, list(inputs)) if generation.encoder else []
        self.encode_inputs = [inputs[name] for name in taken]
        results = [parts.encode(each) if generation.encoder else {} for each in self.tensors]
        encoded = _ports(results, sizes)
        self.encoded = list(encoded.values())
        token = Port(generation.token_input, np.dtype(np.int64), (BATCH,))
        states = {each.input: self._state_port(each, encoded) for each in generation.states}
        # A state stands before an encoder's output of the same name, which stands before an input.
        others = {**inputs, **encoded, **states}
        others.pop(token.name, None)
        self.step_inputs = [token, *others.values()]
        self.stepped = [
            {
                **tensors,
                **result,
                **{each.input: _state(each, states[each.input], result, size) for each in generation.states},
                token.name: np.full(size[BATCH], generation.begin_token, np.int64),
            }
            for tensors, result, size in zip(self.tensors, results, sizes, strict=True)
        ]
        self.maps = {each.name for each in parts.card.description.maps} - set(encoded)
        outputs = _ports([parts.step(each, maps=self.maps) for each in self.stepped], sizes)
        self.step_outputs = list(outputs.values())
        _check_outputs(parts.card, encoded | outputs, states)

    def _sizes(self) -> list[dict[str, int]]:
        largest = maxima(self.parts.card)
        first = example_sizes(largest)
        sizes = [first, example_sizes(largest, avoid=first)]
        growing = [each.input for each in self.parts.generation.states if each.HasField("growing_axis")]
        return [each | {_past(name): length for name in growing} for each, length in zip(sizes, (4, 6), strict=True)]

    def _state_port(self, state: bundle_pb2.State, encoded: Mapping[str, Port]) -> Port:
        if state.WhichOneof("initial") == "encoder_output":
            if state.encoder_output not in encoded:
                raise ExportError(
                    f"the state {state.input!r} begins as {state.encoder_output!r}, which encode does not give"
                )
            port = replace(encoded[state.encoder_output], name=state.input)
        else:
            axes: list[str | int] = [each.size or each.name for each in state.zeros.dimensions]
            axes.insert(state.batch_axis, BATCH)
            known = {BATCH: 1, **maxima(self.parts.card)}
            dtype = initial_state(state, {}, known).dtype
            port = Port(state.input, dtype, tuple(axes))
        if state.HasField("growing_axis"):
            grown = list(port.axes)
            grown[state.growing_axis] = _past(state.input)
            port = replace(port, axes=tuple(grown))
        if port.axes[state.batch_axis] != BATCH:
            raise ExportError(
                f"the state {state.input!r} has no batch at axis {state.batch_axis}: its axes are {port.axes}"
            )
        return port


def _past(state: str) -> str:
    return f"{state}_past"


def _state(state: bundle_pb2.State, port: Port, encoded: Mapping[str, Array], sizes: Mapping[str, int]) -> Array:
    if state.WhichOneof("initial") == "encoder_output":
        return encoded[state.encoder_output]
    return np.zeros(port.sizes(sizes), port.dtype)


def _ports(results: Sequence[Mapping[str, Array]], sizes: Sequence[Mapping[str, int]]) -> dict[str, Port]:
    """Describe tensors by what they were at several sizes."""
    return {
        name: Port(name, array.dtype, infer_axes(name, [each[name].shape for each in results], sizes))
        for name, array in results[0].items()
    }


def _check_outputs(card: Card, found: Mapping[str, Port], states: Mapping[str, Port]) -> None:
    """Check scores, states and maps against the card."""
    generation = card.generation
    assert generation is not None
    scores = found[generation.scores_output]
    if len(scores.axes) != 2 or scores.axes[0] != BATCH or not isinstance(scores.axes[1], int):
        raise ExportError(f"{scores.name} has the axes {list(scores.axes)}; scores of a step are [batch, token]")
    for state in generation.states:
        before, after = states[state.input].axes, found[state.output].axes
        differing = {place for place in range(len(before)) if before[place : place + 1] != after[place : place + 1]}
        allowed = {state.growing_axis} if state.HasField("growing_axis") else set()
        if len(before) != len(after) or differing - allowed:
            raise ExportError(f"the state {state.output!r} has the axes {list(after)}; it went in as {list(before)}")
    for each in card.description.maps:
        stated, actual = map_port(card, each).axes, found[each.name].axes
        # A decoder's keys may be its own steps: their number is nothing that a size decides.
        if len(stated) != len(actual) or any(a != b for a, b in zip(stated, actual, strict=True) if a != STEP):
            raise ExportError(f"the map {each.name} has the axes {list(actual)}; the card states {list(stated)}")


def _set_apart(port: Port) -> Port:
    axes = tuple(axis if isinstance(axis, int) else _OF_STEP + axis for axis in port.axes)
    return replace(port, name=_OF_STEP + port.name, axes=axes)


def _cut(
    traced: "onnx_ir.Model",
    card: Card,
    name: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    *,
    prefix: str = "",
) -> Graph:
    """Cut one part out of the graph of both, and give its inputs and outputs their own names."""
    try:
        graph = onnx_ir.convenience.extract(
            traced.graph, [prefix + port.name for port in inputs], [prefix + port.name for port in outputs]
        )
    except ValueError as error:
        raise ExportError(f"the graph {name} cannot be told apart from the other part: {error}") from error
    for value, port in zip(graph.inputs, inputs, strict=True):
        value.name = port.name
    for value, port in zip(graph.outputs, outputs, strict=True):
        value.name = port.name
    used = [place for place, value in enumerate(graph.inputs) if value.uses() or value.is_graph_output()]
    kept = [graph.inputs[place] for place in used]
    graph.inputs.clear()
    graph.inputs.extend(kept)
    ports = [inputs[place] for place in used]
    model, _ = finish(onnx_ir.Model(graph, ir_version=traced.ir_version), ports, outputs, longest=longest(card))
    return Graph(name, f"{name}.onnx", model, tuple(ports), tuple(outputs))
