"""One row's part of what a batch was answered with, in the form that a caller gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bundle.maps import MapWeights, bound_maps, canonical, cut, map_quantities, nested_mask_name
from bundle.rows import Labels, Row, cut_output, cut_outputs
from bundle.values import Array
from export.execution.generation import Unrolled
from export.interface import joined_axes, map_axes, map_binding
from limelight.v1 import attention_pb2, model_pb2
from models.cards.card import Card

_GRAPH = "main"


@dataclass(frozen=True)
class RowAnswer:
    """One row's answer, without batch axis or padding."""

    outputs: Mapping[str, Array]
    maps: Mapping[str, MapWeights]
    token_ids: tuple[int, ...] = ()


def one_pass(card: Card, answered: Mapping[str, Array], rows: Sequence[Row]) -> list[RowAnswer]:
    """Take apart what a graph put out for a batch, a part a row."""
    bundle, joined = card.bundle(), joined_axes(card)
    bundle.maps.extend(
        map_binding(card, each.name, quantity, _GRAPH) for each, quantity in map_quantities(card.description.maps)
    )
    outputs = {
        each.name: cut_outputs(answered[each.name], each.dimensions, rows, joined) for each in card.description.outputs
    }
    maps = {each.key: each.rows(answered, rows) for each in bound_maps(bundle, _GRAPH, card.bound()).values()}
    return [
        RowAnswer(
            {name: parts[place] for name, parts in outputs.items()},
            {name: parts[place] for name, parts in maps.items()},
        )
        for place in range(len(rows))
    ]


def generated(card: Card, unrolled: Unrolled, row: Row, place: int) -> RowAnswer:
    """Take one row's part of a generation: step outputs are stacked in front, maps have the steps as queries.

    What the encoder puts out is answered too, where the description has it.
    """
    assert card.generation is not None
    steps = unrolled.tokens.shape[1]
    labels = dict(row.labels)
    prompt = row.tensors.get(card.generation.prompt_tensor, ())
    for labelled in card.description.label_sets:
        if labelled.kind == attention_pb2.LABEL_KIND_OUTPUT_STEPS:
            labels[labelled.name] = Labels(labelled.name, labelled.kind, steps)
        elif labelled.kind == attention_pb2.LABEL_KIND_INPUT_STEPS:
            labels[labelled.name] = Labels(labelled.name, labelled.kind, len(prompt) + steps)
    written = Row(row.tensors, row.sizes, labels)
    outputs = {}
    for output in card.description.outputs:
        if output.name == card.generation.scores_output:
            outputs[output.name] = unrolled.scores[place]
        else:
            outputs[output.name] = cut_output(unrolled.encoded[output.name][place], output.dimensions, row.sizes)
    maps = {}
    for each in card.description.maps:
        if each.name in unrolled.maps:
            maps[each.name] = cut(unrolled.map(each.name)[place], each, labels, written)
        else:
            maps[each.name] = _cut_map(card, unrolled.encoded, each, written, place)
    return RowAnswer(outputs, maps, tuple(int(token) for token in unrolled.tokens[place]))


def _cut_map(
    card: Card, answered: Mapping[str, Array], description: model_pb2.MapDescription, row: Row, place: int
) -> MapWeights:
    whole = canonical(answered[description.name], map_axes(card, description.name))
    return cut(
        whole[place], description, row.labels, row, nested_mask_name(card.description, description, card.bound())
    )
