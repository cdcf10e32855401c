"""Splits the outputs of a batch into the answers of its rows, as callers get them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from limelight.v1 import attention_pb2, model_pb2
from limelight_bundle.generation import leading_tokens
from limelight_bundle.maps import MapWeights, bound_maps, canonical, cut, map_quantities, nested_mask_name
from limelight_bundle.rows import Labels, Row, cut_output, cut_outputs
from limelight_bundle.values import Array
from limelight_export.execution.generation import GenerationTrace
from limelight_export.interface import joined_axes, map_axes, map_binding, raw_outputs
from limelight_models.cards.card import Card

_GRAPH = "main"


@dataclass(frozen=True)
class RowAnswer:
    """The answer to one row, without batch axis or padding."""

    outputs: Mapping[str, Array]
    maps: Mapping[str, MapWeights]
    token_ids: tuple[int, ...] = ()


def single_pass_answers(card: Card, answered: Mapping[str, Array], rows: Sequence[Row]) -> list[RowAnswer]:
    """Split a batch's outputs into one answer a row."""
    bundle, joined = card.bundle(), joined_axes(card)
    bundle.maps.extend(
        map_binding(card, each.name, quantity, _GRAPH) for each, quantity in map_quantities(card.description.maps)
    )
    outputs = {each.name: cut_outputs(answered[each.name], each.dimensions, rows, joined) for each in raw_outputs(card)}
    maps = {each.key: each.rows(answered, rows) for each in bound_maps(bundle, _GRAPH, card.bound()).values()}
    return [
        RowAnswer(
            {name: parts[place] for name, parts in outputs.items()},
            {name: parts[place] for name, parts in maps.items()},
        )
        for place in range(len(rows))
    ]


def generation_answer(card: Card, trace: GenerationTrace, row: Row, place: int) -> RowAnswer:
    """Return the answer to one row of a generation.

    Outputs of the steps are stacked in front, and maps have the steps as queries. Outputs of the encoder, and of the
    graph that reads a prompt, are included where the description has them.
    """
    assert card.generation is not None
    steps = trace.tokens.shape[1]
    labels = dict(row.labels)
    prompt = row.tensors.get(card.generation.prompt_tensor, ())
    for labelled in card.description.label_sets:
        if labelled.kind == attention_pb2.LABEL_KIND_OUTPUT_STEPS:
            labels[labelled.name] = Labels(labelled.name, labelled.kind, steps)
        elif labelled.kind == attention_pb2.LABEL_KIND_INPUT_STEPS:
            before = len(leading_tokens(card.generation)) + len(prompt)
            labels[labelled.name] = Labels(labelled.name, labelled.kind, before + steps - 1)
    generated_row = Row(row.tensors, row.sizes, labels)
    outputs = {}
    read = {**trace.encoded, **trace.prefilled}
    for output in raw_outputs(card):
        if output.name in trace.of_steps:
            outputs[output.name] = trace.of_steps[output.name][place]
        elif output.name in read:  # a prompt that is empty but for its last token is not read ahead
            outputs[output.name] = cut_output(read[output.name][place], output.dimensions, row.sizes)
    maps = {}
    for each in card.description.maps:
        if each.name in trace.maps:
            maps[each.name] = cut(trace.stacked_map(each.name)[place], each, labels, generated_row)
        else:
            maps[each.name] = _cut_map(card, read, each, generated_row, place)
    return RowAnswer(outputs, maps, tuple(int(token) for token in trace.tokens[place]))


def _cut_map(
    card: Card, answered: Mapping[str, Array], description: model_pb2.MapDescription, row: Row, place: int
) -> MapWeights:
    whole = canonical(answered[description.name], map_axes(card, description.name))
    return cut(
        whole[place], description, row.labels, row, nested_mask_name(card.description, description, card.bound())
    )
