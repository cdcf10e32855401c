"""Turns the card of a model that was made elsewhere into the card of its bundle.

The model is the authority on its shapes: they are observed at several sizes, and a card that says otherwise is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from limelight.base.enums import number_of
from limelight.v1 import model_pb2
from limelight_bundle.v1 import bundle_pb2
from limelight_export.errors import ExportError
from limelight_export.importing import cards
from limelight_export.importing.inputs import ImportedInput, ModelInput, imported_inputs, runs_single_rows
from limelight_export.importing.label_sets import label_sets_of
from limelight_export.importing.maps import MapSource, imported_map, map_source
from limelight_export.importing.observed import Observed, find_observed
from limelight_export.importing.results import imported_result, raw_output
from limelight_models.cards.card import Card
from limelight_models.cards.describe import describe
from limelight_models.cards.labels import LabelSet
from limelight_models.cards.maps import Map
from limelight_models.cards.results import Result, Written
from limelight_models.cards.taxonomy import Taxonomy

_UNKNOWN = Taxonomy(**{each.name: () for each in fields(Taxonomy)})


@dataclass(frozen=True)
class ImportedCard:
    """The card of a bundle, and where its tensors come from.

    Attributes:
        inputs: the model's own input of each tensor and mask of the card.
        outputs: of the card, and of the model by the same names.
        maps: by the card's name.
    """

    card: Card
    inputs: Mapping[str, ModelInput]
    outputs: tuple[str, ...]
    maps: Mapping[str, MapSource]


def card_of_inputs(card: cards.Card) -> ImportedCard:
    """Return the part of a card that is known before the model has run: its inputs.

    Raises:
        ExportError: names the input that is wrong, and why, or what is no map.
    """
    for name, stated in card.maps.items():
        if not isinstance(stated, cards.Map):
            raise ExportError(f"the card's map {name!r} is {stated!r}; it is a Map")
    inputs = imported_inputs(card)
    made = Card(
        description=model_pb2.ModelDescription(name=card.name, inputs=[each.describe() for each in inputs]),
        preprocessing=tuple(
            bundle_pb2.Preprocessing(input=each.name, steps=each.steps) for each in inputs if each.steps
        ),
        tensors=tuple(tensor.binding() for each in inputs for tensor in each.tensors),
        files={name: text for each in inputs for name, text in each.files.items()},
        single_rows=runs_single_rows(card, inputs),
    )
    return ImportedCard(made, {each.name: each for owner in inputs for each in owner.taken}, (), {})


def complete_card(card: cards.Card, observed: Mapping[str, Observed], summary: str = "") -> ImportedCard:
    """Return the whole card, once every output of the model has been observed.

    Args:
        summary: added to the card's own.
    Raises:
        ExportError: names the part of the card that is wrong, and what the model does.
    """
    inputs = imported_inputs(card)
    known = label_sets_of(card, inputs)
    maps, sources = _maps(card, observed, known)
    taken = {each.output for each in sources.values()}
    free = [name for name, each in observed.items() if name not in taken and not each.is_inner]
    results = [imported_result(name, stated, observed, free, known) for name, stated in card.results.items()]
    stated_outputs = [*card.outputs] if card.outputs or results else free
    if not stated_outputs and not results:
        raise ExportError("the card has neither a result nor an output, and the model returns maps only")
    read = {output.name for each in results for output in each.outputs}
    raw = [
        raw_output(find_observed(observed, name, "the card"), inputs)
        for name in dict.fromkeys(stated_outputs)
        if name not in read
    ]
    described = _described(card, inputs, results, maps, raw, summary)
    names = tuple(each.name for each in described.description.outputs)
    return ImportedCard(described, card_of_inputs(card).inputs, names, sources)


def generating_card(
    card: cards.Card,
    written: Written,
    observed: Mapping[str, Observed],
    summary: str,
    steps: LabelSet,
) -> ImportedCard:
    """Return the whole card of a model that generates.

    Args:
        steps: the label set of the generated tokens, by which maps name them.
    Raises:
        ExportError: as for `complete_card`.
    """
    if card.results or card.outputs:
        raise ExportError("the card of a model that generates has a text as its only result: leave out the others")
    inputs = imported_inputs(card)
    known = {**label_sets_of(card, inputs), steps.name: steps}
    maps, sources = _maps(card, observed, known)
    described = _described(card, inputs, [written], maps, [], summary)
    return ImportedCard(described, card_of_inputs(card).inputs, (), sources)


def _maps(
    card: cards.Card, observed: Mapping[str, Observed], known: Mapping[str, LabelSet]
) -> tuple[dict[str, Map], dict[str, MapSource]]:
    maps, sources = {}, {}
    for name, stated in card.maps.items():
        tensor = find_observed(observed, stated.output, f"the card's map {name!r}")
        sources[name] = map_source(name, stated, tensor)
        maps[name] = imported_map(name, stated, sources[name], tensor, known)
    return maps, sources


def _described(
    card: cards.Card,
    inputs: Sequence[ImportedInput],
    results: Sequence[Result],
    maps: Mapping[str, Map],
    outputs: Sequence[model_pb2.OutputDescription],
    summary: str,
) -> Card:
    try:
        described = describe(
            name=card.name,
            title=card.title or card.name,
            summary=" ".join(filter(None, (card.summary, summary))),
            inputs=inputs,
            results=results,
            maps=maps,
            outputs=outputs,
            taxonomy=_UNKNOWN,
        )
    except ValueError as error:  # two label sets or files have the same name
        raise ExportError(f"the card: {error}") from error
    if card.licence:
        described.description.source.licence = card.licence
    _check_task(card, described)
    return replace(described, single_rows=runs_single_rows(card, inputs))


def _check_task(card: cards.Card, described: Card) -> None:
    if not card.task:
        return
    try:
        wanted = number_of(model_pb2.Task, card.task, what="the card's task")
    except ValueError as error:
        raise ExportError(str(error)) from error
    if described.description.task != wanted:
        found = model_pb2.Task.Name(described.description.task).removeprefix("TASK_").lower()
        raise ExportError(f"the card's task is {card.task!r}, and its first result makes it {found!r}")
