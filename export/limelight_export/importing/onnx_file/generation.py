"""Import of a pair of ONNX files that generate: the first encodes an input, the second scores the next token."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from limelight_bundle.interventions import intervened_name
from limelight_export.errors import ExportError
from limelight_export.exported_graph import ExportedGraph
from limelight_export.importing import cards
from limelight_export.importing.describe import ImportedCard, card_of_inputs, generating_card
from limelight_export.importing.observed import Observed
from limelight_export.importing.onnx_file.card_file import Generation, shape_of
from limelight_export.importing.onnx_file.file import OnnxFile, read_onnx
from limelight_export.importing.onnx_file.observing import Run, fixed_batch, observe
from limelight_export.importing.onnx_file.pair_reference import TOKEN, PairReference, encoded_name, next_name
from limelight_export.importing.onnx_file.reference import FileSession
from limelight_export.importing.onnx_file.surgery import GraphPart, intervened_part, part_graph
from limelight_export.interface import BATCH, TensorSpec, input_specs, map_spec
from limelight_models.cards.inputs import Tokenizer
from limelight_models.cards.labels import output_steps
from limelight_models.cards.results import State, Written

STEPS = "output"


@dataclass(frozen=True)
class ImportedPair:
    """Two files that generate, as a bundle's card and graphs, and as their own reference."""

    card: ImportedCard
    graphs: tuple[ExportedGraph, ...]
    reference: PairReference


@dataclass(frozen=True)
class _Observations:
    """Outputs of both files. first: of the encoder; second: of one step."""

    first: Mapping[str, Observed]
    second: Mapping[str, Observed]


def import_pair(encoder: OnnxFile, card: cards.Card, generation: Generation, folder: Path, origin: str) -> ImportedPair:
    """Describe a pair of files, and build the graphs of its bundle.

    Args:
        folder: where the paths of the card begin.
        origin: sentence on the model's origin.
    Raises:
        ExportError: a file is wrong, or the card does not fit the files.
    """
    step = read_onnx(folder / generation.step)
    for file in (encoder, step):
        if fixed_batch(file):
            raise ExportError(f"{file.path.name} takes one row at a time; a pair that generates must take any number")
    # Rows join a continuous batch at any time, and what was encoded for them is padded with zeros there.
    card = replace(card, batch=False)
    _check_step(encoder, step, generation)
    named = [each.output for each in card.maps.values()]
    inner = [{each for each in named if each in file.values and each not in file.outputs} for file in (encoder, step)]
    for name, each in card.maps.items():
        if not any(each.output in (*file.outputs, *own) for file, own in zip((encoder, step), inner, strict=True)):
            raise ExportError(
                f"the card's map {name!r} names the output {each.output!r}, which neither {encoder.path.name} nor "
                f"{step.path.name} has"
            )
    sessions = FileSession(encoder, inner[0]), FileSession(step, inner[1])
    known = card_of_inputs(card)
    first, runs = observe(sessions[0], known, inner[0])
    second = _observe_step(sessions[1], generation, first, runs)
    seen = _Observations(first, second)
    tokenizer = _tokenizer(folder / generation.tokenizer)
    complete = generating_card(
        card, _written(generation, seen, tokenizer), {**first, **second}, origin, output_steps(STEPS)
    )
    reference = PairReference(sessions, complete, generation)
    return ImportedPair(complete, _graphs(encoder, step, complete, generation, seen), reference)


def _check_step(encoder: OnnxFile, step: OnnxFile, generation: Generation) -> None:
    named = [generation.token, *generation.states, *generation.constants]
    for name in named:
        if name not in step.inputs:
            raise ExportError(
                f"the card's generation names the input {name!r}, which {step.path.name} does not take; it takes "
                f"{', '.join(map(repr, step.inputs))}"
            )
    for name, own in step.inputs.items():
        if name not in named:
            raise ExportError(f"{step.path.name} takes {name!r} ({shape_of(own)}), which the card's generation lacks")
    if twice := {name for name in named if named.count(name) > 1}:
        raise ExportError(f"the card's generation names the input {min(twice)!r} twice")
    for state, pair in generation.states.items():
        if len(pair) != 2:
            raise ExportError(
                f"the card's state {state!r} must be a list of two: an output of {encoder.path.name}, and one of "
                f"{step.path.name}"
            )
    outputs = [(encoder, each) for each in generation.constants.values() if each not in encoder.inputs]
    outputs += [(encoder, first) for first, _ in generation.states.values()]
    outputs += [(step, generation.scores), *((step, after) for _, after in generation.states.values())]
    for file, name in outputs:
        if name not in file.outputs:
            raise ExportError(
                f"the card's generation names the output {name!r}, which {file.path.name} does not have; it has "
                f"{', '.join(map(repr, file.outputs))}"
            )
    if len(step.inputs[generation.token].axes) not in (1, 2):
        raise ExportError(f"{step.path.name} takes {generation.token!r} with axes other than [batch] or [batch, 1]")


def _observe_step(
    session: FileSession, generation: Generation, first: Mapping[str, Observed], runs: tuple[Run, ...]
) -> dict[str, Observed]:
    """Run one step behind each run of the encoder."""
    own, inputs = session.file.inputs[generation.token], session.file.inputs
    sizes = next(iter(first.values())).sizes
    found = []
    for run, at in zip(runs, sizes, strict=True):
        known = {**run.inputs, **run.outputs}
        feeds = {name: known[source].astype(inputs[name].dtype) for name, source in generation.constants.items()}
        feeds |= {name: run.outputs[initial] for name, (initial, _) in generation.states.items()}
        feeds[generation.token] = np.full((at[BATCH], 1)[: len(own.axes)], generation.begin, own.dtype)
        found.append(session.run(feeds))
    return {
        name: Observed(
            name, array.dtype, tuple(run[name].shape for run in found), sizes, name not in session.file.outputs
        )
        for name, array in found[0].items()
    }


def _tokenizer(path: Path) -> Tokenizer:
    try:
        made = Tokenizer(text=path.read_text(encoding="utf-8"), file="output.tokenizer.json")
        made.vocabulary  # noqa: B018 -- reads the file
    except Exception as error:  # the library raises its own types
        raise ExportError(f"the card's generation: {path} is no readable tokenizer.json") from error
    return made


def _written(generation: Generation, seen: _Observations, tokenizer: Tokenizer) -> Written:
    scores = seen.second[generation.scores]
    if scores.axes[:1] != (BATCH,) or scores.axes[1:] != (tokenizer.vocabulary,):
        raise ExportError(
            f"the scores {generation.scores!r} are {list(scores.shapes[0])} for {scores.sizes[0][BATCH]} rows, and the "
            f"tokenizer of the card's generation has {tokenizer.vocabulary} tokens: [batch, {tokenizer.vocabulary}]"
        )
    for name in ("begin", "end"):
        if not 0 <= getattr(generation, name) < tokenizer.vocabulary:
            raise ExportError(f"the card's generation: `{name}` is not an id of its tokenizer")
    return Written(
        steps=output_steps(STEPS),
        tokenizer=tokenizer,
        begin=generation.begin,
        end=generation.end,
        max_new_tokens=generation.max_new_tokens,
        states=[State(input=name, output=next_name(name), start=encoded_name(name)) for name in generation.states],
        target="",
        target_tensor="",
        scores=generation.scores,
    )


def _graphs(
    encoder: OnnxFile, step: OnnxFile, complete: ImportedCard, generation: Generation, seen: _Observations
) -> tuple[ExportedGraph, ...]:
    card = complete.card
    inputs = [each for each in input_specs(card) if each.name in complete.inputs]
    passed = {name: source for name, source in generation.constants.items() if source in encoder.inputs}
    given = {name: source for name, source in generation.constants.items() if name not in passed}
    constants = dict(given)
    given |= {name: initial for name, (initial, _) in generation.states.items()}

    def spec(name: str, tensor: Observed, *, floating: bool = False) -> TensorSpec:
        dtype = np.dtype(np.float32) if floating else tensor.dtype
        return TensorSpec(name, dtype, tensor.axes)

    maps = {each.name: map_spec(card, each) for each in card.description.maps}
    of_step = {name for name, source in complete.maps.items() if source.output in seen.second}
    first = GraphPart(
        name="encoder",
        inputs=inputs,
        converted=complete.inputs,
        outputs={
            encoded_name(name): (source, spec(encoded_name(name), seen.first[source])) for name, source in given.items()
        },
        maps={name: (source, maps[name]) for name, source in complete.maps.items() if name not in of_step},
    )
    token = step.inputs[generation.token]
    second = GraphPart(
        name="step",
        inputs=[
            TensorSpec(TOKEN, np.dtype(np.int64), (BATCH,)),
            *(spec(encoded_name(name), seen.first[source]) for name, source in constants.items()),
            *(each for each in inputs if each.name in passed.values()),
            *(spec(name, seen.first[initial]) for name, (initial, _) in generation.states.items()),
        ],
        converted={source: complete.inputs[source] for source in passed.values()},
        renamed={generation.token: TOKEN} | {name: encoded_name(name) for name in constants} | passed,
        widened={TOKEN} if len(token.axes) == 2 else set(),
        outputs={
            generation.scores: (
                generation.scores,
                spec(generation.scores, seen.second[generation.scores], floating=True),
            ),
            **{
                next_name(name): (after, spec(next_name(name), seen.second[after]))
                for name, (_, after) in generation.states.items()
            },
        },
        maps={name: (source, maps[name]) for name, source in complete.maps.items() if name in of_step},
        squeezed=True,
    )
    parts = (encoder, first), (step, second)
    changed = [intervened_part(file, part, intervened_name(part.name), card) for file, part in parts]
    return *(part_graph(file, part) for file, part in parts), *(graph for each in changed for graph in each)
