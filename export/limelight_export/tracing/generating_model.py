"""Builds the graphs of a generating model: one trace of all parts, then cut apart.

Inputs and axes of each part get a prefix and sizes of their own, so that the exporter shares nothing but weights
between the parts. Names are restored after the cut.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir
import torch
from torch import Tensor

from limelight_bundle.interventions import intervened_name
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Array
from limelight_export.errors import ExportError
from limelight_export.execution.generation import ENTRIES, initial_state
from limelight_export.execution.positional_modules import CombinedParts, ModelPart, accepted_arguments, select_tensors
from limelight_export.execution.pytorch_runner import PyTorchGenerationRunner
from limelight_export.execution.random_inputs import RandomInputs, collate_rows
from limelight_export.exported_graph import ExportedGraph
from limelight_export.interface import (
    BATCH,
    STEP,
    IntervenedMap,
    TensorSpec,
    hidden_names,
    input_specs,
    intervened_maps,
    map_spec,
    max_axis_size,
    max_sizes,
    optional_map_axes,
    raw_outputs,
    value_axes,
)
from limelight_export.surgery.finalise import finalise
from limelight_export.tracing.example_sizes import example_sizes, infer_axes
from limelight_export.tracing.trace import trace
from limelight_models.cards.card import Card
from limelight_models.network import Network, PromptedNetwork

_STEP_PREFIX, _PREFILL_PREFIX, _LENS_PREFIX = "step_", "prefill_", "lens_"
_VECTORS = 43  # of the lens; no other axis has this size
# Entries of the KV caches at the two sizes; no other axis has these.
_CACHE_SIZES = (49, 53)


def build_generation_graphs(model: Network, card: Card, *, interventions: bool = False) -> list[ExportedGraph]:
    """Trace a generating model to the graphs of its step, encoder and prefill, as its card states.

    Args:
        interventions: add a graph for interventions of each part of which a map takes them.
    Raises:
        ExportError: a part cannot be exported or cut out, or an output differs from the card.
    """
    example = _ExampleRuns(PyTorchGenerationRunner(model, card))
    runner = example.runner
    generation = runner.generation
    read = accepted_arguments(runner.model.step, [spec.name for spec in example.step_inputs[1:]])
    step_inputs = [example.step_inputs[0], *(spec for spec in example.step_inputs[1:] if spec.name in read)]
    specs = [*example.encode_inputs, *_add_prefix(step_inputs, _STEP_PREFIX)]
    arguments = [*(example.tensors[0][spec.name] for spec in example.encode_inputs)]
    arguments += [example.stepped[1][spec.name] for spec in step_inputs]
    outputs = [spec.name for spec in example.encoded]
    outputs += [_STEP_PREFIX + spec.name for spec in example.step_outputs]
    modules = [_encode_part(example), _step_part(example, step_inputs)]
    if generation.prefill:
        specs += _add_prefix(example.prefill_inputs, _PREFILL_PREFIX)
        arguments += [example.prefilled[0][spec.name] for spec in example.prefill_inputs]
        outputs += [_PREFILL_PREFIX + spec.name for spec in example.prefill_outputs]
        modules.append(_prefill_part(example))
    if lens := generation.lens:
        specs += _add_prefix(example.lens_inputs, _LENS_PREFIX)
        arguments += [example.read[spec.name] for spec in example.lens_inputs]
        outputs += [_LENS_PREFIX + spec.name for spec in example.lens_outputs]
        modules.append(_lens_part(example))
    largest = max_sizes(card)
    traced = trace(
        CombinedParts(runner.model, modules),
        [torch.from_numpy(np.array(array)) for array in arguments],
        specs,
        outputs,
        {prefix + axis: size for prefix in ("", _STEP_PREFIX, _PREFILL_PREFIX) for axis, size in largest.items()},
    )
    changed: list[ExportedGraph] = []

    def part(name: str, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], prefix: str = "") -> ExportedGraph:
        names = {spec.name for spec in outputs}
        if maps := {name: each for name, each in intervened_maps(card).items() if interventions and name in names}:
            made = _extract_graph(traced, card, name, inputs, outputs, maps, prefix=prefix)
            if made.interventions:
                changed.append(made)
        return _extract_graph(traced, card, name, inputs, outputs, {}, prefix=prefix)

    graphs = [part(generation.step, step_inputs, example.step_outputs, _STEP_PREFIX)]
    if generation.prefill:
        graphs.append(part(generation.prefill, example.prefill_inputs, example.prefill_outputs, _PREFILL_PREFIX))
    if lens:
        graphs.append(part(generation.lens, example.lens_inputs, example.lens_outputs, _LENS_PREFIX))
    if generation.encoder:
        initial = {each.encoder_output for each in generation.states}
        needed = {spec.name for graph in graphs for spec in graph.inputs} | initial
        needed |= {each.name for each in raw_outputs(card)} | {each.name for each in card.description.maps}
        encoded = [spec for spec in example.encoded if spec.name in needed]
        graphs.insert(0, part(generation.encoder, example.encode_inputs, encoded))
    names = [intervened_name(each.name) for each in changed]
    return [
        *graphs,
        *(replace(each, name=name, file=f"{name}.onnx") for each, name in zip(changed, names, strict=True)),
    ]


def _encode_part(example: "_ExampleRuns") -> ModelPart:
    names = [spec.name for spec in example.encoded]
    model = example.runner.model
    return ModelPart(
        lambda tensors: select_tensors(model.encode(**tensors), names, "result of encode") if names else [],
        tuple(spec.name for spec in example.encode_inputs),
    )


def _step_part(example: "_ExampleRuns", inputs: Sequence[TensorSpec]) -> ModelPart:
    model, generation = example.runner.model, example.runner.generation
    states = [each.output for each in generation.states]
    maps = [spec.name for spec in example.step_outputs if spec.name in example.maps]

    def run(tensors: Mapping[str, Tensor]) -> list[Tensor]:
        others = {name: tensor for name, tensor in tensors.items() if name != generation.token_input}
        answer = model.step(tensors[generation.token_input], **others)
        return [
            answer.scores,
            *select_tensors(answer.states, states, "state"),
            *select_tensors(answer.maps, maps, "map"),
            *answer.hidden.values(),
        ]

    return ModelPart(run, tuple(spec.name for spec in inputs))


def _prefill_part(example: "_ExampleRuns") -> ModelPart:
    model, generation = example.runner.model, example.runner.generation
    assert isinstance(model, PromptedNetwork)
    names = [spec.name for spec in example.prefill_outputs]

    def run(tensors: Mapping[str, Tensor]) -> list[Tensor]:
        found = model.prefill(tensors[generation.token_input], tensors[generation.positions_input])
        return select_tensors(found, names, "state or map")

    return ModelPart(run, tuple(spec.name for spec in example.prefill_inputs))


def _lens_part(example: "_ExampleRuns") -> ModelPart:
    model, names = example.runner.model, tuple(spec.name for spec in example.lens_inputs)
    return ModelPart(lambda tensors: [*model.lens(*(tensors[name] for name in names))], names)


class _ExampleRuns:
    """Runs of the parts in PyTorch at two sizes, which show the axes of the tensors that pass between them."""

    def __init__(self, runner: PyTorchGenerationRunner) -> None:
        self.runner = runner
        generation = runner.generation
        sizes = self._sizes()
        random_inputs = RandomInputs(runner.card)
        self.tensors = [collate_rows(runner.card, random_inputs.rows(each)) for each in sizes]
        inputs = {spec.name: spec for spec in input_specs(runner.card)}
        taken = accepted_arguments(runner.model.encode, list(inputs)) if generation.encoder else []
        self.encode_inputs = [inputs[name] for name in taken]
        results = [runner.encode(each) if generation.encoder else {} for each in self.tensors]
        encoded = _specs(results, sizes)
        self.encoded = list(encoded.values())
        token = TensorSpec(generation.token_input, np.dtype(np.int64), (BATCH,))
        counters = [
            TensorSpec(name, np.dtype(np.int64), (BATCH,))
            for name in dict.fromkeys([generation.positions_input, generation.lengths_input])
            if name
        ]
        states = {each.input: self._state_spec(each, encoded) for each in generation.states}
        # A state takes precedence over an encoder output of the same name, and that over an input.
        others = {**inputs, **encoded, **states, **{spec.name: spec for spec in counters}}
        others.pop(token.name, None)
        self.step_inputs = [token, *others.values()]
        self.stepped = [
            {
                **tensors,
                **result,
                **{each.input: _state(each, states[each.input], result, size) for each in generation.states},
                **{spec.name: np.arange(size[BATCH]) % 3 for spec in counters},
                token.name: np.full(size[BATCH], generation.begin_token, np.int64),
            }
            for tensors, result, size in zip(self.tensors, results, sizes, strict=True)
        ]
        if generation.prefill:
            self._prefill(sizes)
        if generation.lens:
            self._lens()
        of_prompt = {spec.name: spec for spec in self.prefill_outputs} if generation.prefill else {}
        self.maps = {each.name for each in runner.card.description.maps} - {*encoded, *of_prompt}
        outputs = _specs([runner.step(each, maps=self.maps) for each in self.stepped], sizes)
        self.step_outputs = list(outputs.values())
        _check_outputs(runner.card, of_prompt | encoded | outputs, states)

    def _lens(self) -> None:
        """Read tokens from vectors."""
        size = self.runner.card.description.hidden[-1].size
        self.lens_inputs = [
            TensorSpec("vectors", np.dtype(np.float32), ("vector", size)),
            TensorSpec("is_last", np.dtype(np.bool_), ("vector",)),
        ]
        random = np.random.default_rng(0)
        vectors = random.standard_normal((_VECTORS, size), dtype=np.float32)
        self.read = {"vectors": vectors, "is_last": np.arange(_VECTORS) % 2 == 0}
        self.lens_outputs = [
            TensorSpec(name, array.dtype, ("vector", array.shape[1]))
            for name, array in self.runner.lens(self.read).items()
        ]

    def _prefill(self, sizes: Sequence[Mapping[str, int]]) -> None:
        """Prefill a prompt at both sizes. The begin token replaces the last token."""
        generation = self.runner.generation
        (axis,) = self.runner.card.bound()[generation.prompt_tensor].description.dimensions
        names = (generation.token_input, generation.positions_input)
        self.prefill_inputs = [TensorSpec(name, np.dtype(np.int64), (BATCH, axis.name)) for name in names]
        self.prefilled = []
        for size in sizes:
            tokens = np.full((size[BATCH], size[axis.name]), generation.begin_token, np.int64)
            places = np.broadcast_to(np.arange(size[axis.name]), tokens.shape)
            self.prefilled.append(dict(zip(names, (tokens, places), strict=True)))
        self.prefill_outputs = list(_specs([self.runner.prefill(each) for each in self.prefilled], sizes).values())

    def _sizes(self) -> list[dict[str, int]]:
        largest = max_sizes(self.runner.card)
        first = example_sizes(largest)
        sizes = [first, example_sizes(largest, avoid=first)]
        return [each | {ENTRIES: length} for each, length in zip(sizes, _CACHE_SIZES, strict=True)]

    def _state_spec(self, state: bundle_pb2.State, encoded: Mapping[str, TensorSpec]) -> TensorSpec:
        if state.WhichOneof("initial") == "encoder_output":
            if state.encoder_output not in encoded:
                raise ExportError(
                    f"the state {state.input!r} starts as {state.encoder_output!r}, which encode does not return"
                )
            spec = replace(encoded[state.encoder_output], name=state.input)
        else:
            axes: list[str | int] = [each.size or each.name for each in state.zeros.dimensions]
            axes.insert(state.batch_axis, BATCH)
            known = {BATCH: 1, ENTRIES: 1, **max_sizes(self.runner.card)}
            dtype = initial_state(state, {}, known).dtype
            spec = TensorSpec(state.input, dtype, tuple(axes))
        if state.HasField("growing_axis"):
            grown = list(spec.axes)
            grown[state.growing_axis] = ENTRIES
            spec = replace(spec, axes=tuple(grown))
        if spec.axes[state.batch_axis] != BATCH:
            raise ExportError(
                f"the state {state.input!r} has no batch at axis {state.batch_axis}: its axes are {spec.axes}"
            )
        return spec


def _state(state: bundle_pb2.State, spec: TensorSpec, encoded: Mapping[str, Array], sizes: Mapping[str, int]) -> Array:
    if state.WhichOneof("initial") == "encoder_output":
        return encoded[state.encoder_output]
    return np.zeros(spec.shape(sizes), spec.dtype)


def _specs(results: Sequence[Mapping[str, Array]], sizes: Sequence[Mapping[str, int]]) -> dict[str, TensorSpec]:
    """Describe tensors by their values at several sizes."""
    return {
        name: TensorSpec(name, array.dtype, infer_axes(name, [each[name].shape for each in results], sizes))
        for name, array in results[0].items()
    }


def _check_outputs(card: Card, found: Mapping[str, TensorSpec], states: Mapping[str, TensorSpec]) -> None:
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
            raise ExportError(f"the state {state.output!r} has the axes {list(after)}; as input it has {list(before)}")
    for each in card.description.maps:
        stated, actual = map_spec(card, each).axes, found[each.name].axes
        # The keys of a decoder may be its own steps, whose number follows no size.
        if len(stated) != len(actual) or any(a != b for a, b in zip(stated, actual, strict=True) if a != STEP):
            raise ExportError(f"the map {each.name} has the axes {list(actual)}; the card states {list(stated)}")


def _add_prefix(specs: Sequence[TensorSpec], prefix: str) -> list[TensorSpec]:
    return [
        replace(
            spec,
            name=prefix + spec.name,
            axes=tuple(axis if isinstance(axis, int) else prefix + axis for axis in spec.axes),
        )
        for spec in specs
    ]


def _extract_graph(
    traced: "onnx_ir.Model",
    card: Card,
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    maps: Mapping[str, IntervenedMap],
    *,
    prefix: str,
) -> ExportedGraph:
    """Cut one part out of the traced graph, and restore the names of its inputs and outputs.

    Args:
        maps: that may be intervened on, in a graph for that; none for one without.
    """
    try:
        graph = onnx_ir.convenience.extract(
            traced.graph, [prefix + spec.name for spec in inputs], [prefix + spec.name for spec in outputs]
        )
    except ValueError as error:
        raise ExportError(f"the graph {name} cannot be separated from the other parts: {error}") from error
    for value, spec in zip(graph.inputs, inputs, strict=True):
        value.name = spec.name
    for value, spec in zip(graph.outputs, outputs, strict=True):
        value.name = spec.name
    used = [place for place, value in enumerate(graph.inputs) if value.uses() or value.is_graph_output()]
    used_inputs = [graph.inputs[place] for place in used]
    graph.inputs.clear()
    graph.inputs.extend(used_inputs)
    specs = [inputs[place] for place in used]
    names = {spec.name for spec in outputs}
    optional = {} if maps else optional_map_axes(card)
    # Of a step it is one vector, as cheap as an If.
    gated = [] if prefix == _STEP_PREFIX else [each for each in hidden_names(card) if each in names]
    extracted = finalise(
        onnx_ir.Model(graph, ir_version=traced.ir_version),
        specs,
        outputs,
        max_axis_size=max_axis_size(card),
        optional_map_axes={name: axes for name, axes in optional.items() if name in names},
        intervened_maps=maps,
        gated=gated,
        value_axes={name: axes for name, axes in value_axes(card).items() if name in names},
    )
    return ExportedGraph(
        name,
        f"{name}.onnx",
        extracted.model,
        tuple(specs),
        tuple(outputs),
        extracted.optional_maps,
        extracted.packing_masks,
        extracted.interventions,
        tuple(gated),
        extracted.values,
    )
