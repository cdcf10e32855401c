"""The graphs of a generating model: one export of its parts side by side, then cut apart.

The parts are given inputs of their own, axes of their own and sizes of their own, so that the exporter finds nothing to
share between them but weights. What the step takes from the encoder gets its name back after the cut.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir
import torch
from torch import Tensor

from bundle.v1 import bundle_pb2
from bundle.values import Array
from export.errors import ExportError
from export.execution.generation import ENTRIES, initial_state
from export.execution.pytorch_runner import TorchParts
from export.execution.random_inputs import Cases, batch
from export.exported_graph import Graph
from export.interface import BATCH, STEP, Port, input_ports, longest, map_port, maxima
from export.surgery.finalise import finish
from export.tracing.example_sizes import example_sizes, infer_axes
from export.tracing.positional_modules import Part, SideBySide, accepted, pick
from export.tracing.trace import trace
from models.cards.card import Card
from models.network import Network, PromptedNetwork

_OF_STEP, _OF_PREFILL = "step_", "prefill_"
# Places of the caches at the two sizes that are tried, which no other axis has.
_ENTRIES = (49, 53)


def build_parts(model: Network, card: Card) -> list[Graph]:
    """Export a generating model to the graphs of its encoder and of what reads its prompt, where its card has them, and
    of its step.

    Raises: ExportError where they cannot be exported or told apart, or do not answer as the card states.
    """
    parts = TorchParts(model, card)
    generation = parts.generation
    example = _Examples(parts)
    read = accepted(parts.model.step, [port.name for port in example.step_inputs[1:]])
    step_inputs = [example.step_inputs[0], *(port for port in example.step_inputs[1:] if port.name in read)]
    ports = [*example.encode_inputs, *_set_apart(step_inputs, _OF_STEP)]
    arguments = [*(example.tensors[0][port.name] for port in example.encode_inputs)]
    arguments += [example.stepped[1][port.name] for port in step_inputs]
    outputs = [port.name for port in example.encoded]
    outputs += [_OF_STEP + port.name for port in example.step_outputs]
    modules = [_encode_part(example), _step_part(example, step_inputs)]
    if generation.prefill:
        ports += _set_apart(example.prefill_inputs, _OF_PREFILL)
        arguments += [example.prefilled[0][port.name] for port in example.prefill_inputs]
        outputs += [_OF_PREFILL + port.name for port in example.prefill_outputs]
        modules.append(_prefill_part(example))
    largest = maxima(card)
    traced = trace(
        SideBySide(parts.model, modules),
        [torch.from_numpy(np.array(array)) for array in arguments],
        ports,
        outputs,
        {prefix + axis: size for prefix in ("", _OF_STEP, _OF_PREFILL) for axis, size in largest.items()},
    )
    graphs = [_cut(traced, card, generation.step, step_inputs, example.step_outputs, prefix=_OF_STEP)]
    if generation.prefill:
        inputs, kept = example.prefill_inputs, example.prefill_outputs
        graphs.append(_cut(traced, card, generation.prefill, inputs, kept, prefix=_OF_PREFILL))
    if generation.encoder:
        initial = {each.encoder_output for each in generation.states}
        needed = {port.name for graph in graphs for port in graph.inputs} | initial
        needed |= {each.name for each in card.description.outputs} | {each.name for each in card.description.maps}
        encoded = [port for port in example.encoded if port.name in needed]
        graphs.insert(0, _cut(traced, card, generation.encoder, example.encode_inputs, encoded))
    return graphs


def _encode_part(example: "_Examples") -> Part:
    names = [port.name for port in example.encoded]
    model = example.parts.model
    return Part(
        lambda tensors: pick(model.encode(**tensors), names, "result of encode") if names else [],
        tuple(port.name for port in example.encode_inputs),
    )


def _step_part(example: "_Examples", inputs: Sequence[Port]) -> Part:
    model, generation = example.parts.model, example.parts.generation
    states = [each.output for each in generation.states]
    maps = [port.name for port in example.step_outputs if port.name in example.maps]

    def run(tensors: Mapping[str, Tensor]) -> list[Tensor]:
        others = {name: tensor for name, tensor in tensors.items() if name != generation.token_input}
        answer = model.step(tensors[generation.token_input], **others)
        return [answer.scores, *pick(answer.states, states, "state"), *pick(answer.maps, maps, "map")]

    return Part(run, tuple(port.name for port in inputs))


def _prefill_part(example: "_Examples") -> Part:
    model, generation = example.parts.model, example.parts.generation
    assert isinstance(model, PromptedNetwork)
    states = [each.output for each in generation.states]

    def run(tensors: Mapping[str, Tensor]) -> list[Tensor]:
        found = model.prefill(tensors[generation.token_input], tensors[generation.positions_input])
        return pick(found, states, "state")

    return Part(run, tuple(port.name for port in example.prefill_inputs))


class _Examples:
    """The parts run in PyTorch at two sizes, which shows the axes of what passes between them."""

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
        driven = [
            Port(name, np.dtype(np.int64), (BATCH,))
            for name in dict.fromkeys([generation.positions_input, generation.lengths_input])
            if name
        ]
        states = {each.input: self._state_port(each, encoded) for each in generation.states}
        # A state stands before an encoder's output of the same name, which stands before an input.
        others = {**inputs, **encoded, **states, **{port.name: port for port in driven}}
        others.pop(token.name, None)
        self.step_inputs = [token, *others.values()]
        self.stepped = [
            {
                **tensors,
                **result,
                **{each.input: _state(each, states[each.input], result, size) for each in generation.states},
                **{port.name: np.arange(size[BATCH]) % 3 for port in driven},
                token.name: np.full(size[BATCH], generation.begin_token, np.int64),
            }
            for tensors, result, size in zip(self.tensors, results, sizes, strict=True)
        ]
        self.maps = {each.name for each in parts.card.description.maps} - set(encoded)
        outputs = _ports([parts.step(each, maps=self.maps) for each in self.stepped], sizes)
        self.step_outputs = list(outputs.values())
        _check_outputs(parts.card, encoded | outputs, states)
        if generation.prefill:
            self._prefill(sizes)

    def _prefill(self, sizes: Sequence[Mapping[str, int]]) -> None:
        """Read a prompt at both sizes: as many tokens as it has, for the begin token takes the last one's place."""
        generation = self.parts.generation
        (axis,) = self.parts.card.bound()[generation.prompt_tensor].description.dimensions
        names = (generation.token_input, generation.positions_input)
        self.prefill_inputs = [Port(name, np.dtype(np.int64), (BATCH, axis.name)) for name in names]
        self.prefilled = []
        for size in sizes:
            tokens = np.full((size[BATCH], size[axis.name]), generation.begin_token, np.int64)
            places = np.broadcast_to(np.arange(size[axis.name]), tokens.shape)
            self.prefilled.append(dict(zip(names, (tokens, places), strict=True)))
        self.prefill_outputs = list(_ports([self.parts.prefill(each) for each in self.prefilled], sizes).values())

    def _sizes(self) -> list[dict[str, int]]:
        largest = maxima(self.parts.card)
        first = example_sizes(largest)
        sizes = [first, example_sizes(largest, avoid=first)]
        return [each | {ENTRIES: length} for each, length in zip(sizes, _ENTRIES, strict=True)]

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
            known = {BATCH: 1, ENTRIES: 1, **maxima(self.parts.card)}
            dtype = initial_state(state, {}, known).dtype
            port = Port(state.input, dtype, tuple(axes))
        if state.HasField("growing_axis"):
            grown = list(port.axes)
            grown[state.growing_axis] = ENTRIES
            port = replace(port, axes=tuple(grown))
        if port.axes[state.batch_axis] != BATCH:
            raise ExportError(
                f"the state {state.input!r} has no batch at axis {state.batch_axis}: its axes are {port.axes}"
            )
        return port


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
        grows = state.HasField("growing_axis")
        if grows and differing == {state.growing_axis} and after[state.growing_axis] == 1:
            continue
        if grows or len(before) != len(after) or differing:
            raise ExportError(f"the state {state.output!r} has the axes {list(after)}; it went in as {list(before)}")
    for each in card.description.maps:
        stated, actual = map_port(card, each).axes, found[each.name].axes
        # A decoder's keys may be its own steps: their number is nothing that a size decides.
        if len(stated) != len(actual) or any(a != b for a, b in zip(stated, actual, strict=True) if a != STEP):
            raise ExportError(f"the map {each.name} has the axes {list(actual)}; the card states {list(stated)}")


def _set_apart(ports: Sequence[Port], prefix: str) -> list[Port]:
    return [
        replace(
            port,
            name=prefix + port.name,
            axes=tuple(axis if isinstance(axis, int) else prefix + axis for axis in port.axes),
        )
        for port in ports
    ]


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
    cut = finish(onnx_ir.Model(graph, ir_version=traced.ir_version), ports, outputs, longest=longest(card))
    return Graph(name, f"{name}.onnx", cut.model, tuple(ports), tuple(outputs), packed=cut.packed)
