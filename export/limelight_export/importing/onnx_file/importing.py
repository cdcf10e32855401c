"""Import of an ONNX file: card, observation, graph surgery, verification, bundle."""

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from limelight_bundle.errors import BundleError
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample
from limelight_bundle.values import Instance
from limelight_bundle.writer import target_folder
from limelight_export.errors import ExportError
from limelight_export.execution.reference import Reference
from limelight_export.exported_graph import ExportedGraph
from limelight_export.importing import cards
from limelight_export.importing.describe import card_of_inputs, complete_card
from limelight_export.importing.maps import guess_map
from limelight_export.importing.observed import LARGEST_SIZE, Observed
from limelight_export.importing.onnx_file.card_file import CardFile, Generation, read_card
from limelight_export.importing.onnx_file.examples import check_given, drawn_examples, read_npz, read_stated
from limelight_export.importing.onnx_file.file import OnnxFile, read_onnx
from limelight_export.importing.onnx_file.generation import import_pair
from limelight_export.importing.onnx_file.observing import fixed_batch, observe
from limelight_export.importing.onnx_file.reference import FileReference, FileSession
from limelight_export.importing.onnx_file.surgery import bundle_graphs
from limelight_export.importing.references import read_references
from limelight_export.precision import Precision
from limelight_export.verification.compare_samples import compare_samples
from limelight_export.verification.comparison import Comparison
from limelight_export.verification.fitted_tolerances import FittingComparison
from limelight_export.verification.interventions import verified_interventions
from limelight_export.verification.samples import answer_examples
from limelight_export.verification.verify import compare_random_rows, verify
from limelight_export.writing.exported_model import LEFT_OUT, ExportedModel, write_exported
from limelight_models.cards.card import Card

# Random rows to which the tolerances of a file in half precision are fitted.
_FITTED_ROWS = 64


@dataclass(frozen=True)
class OnnxImport:
    """The files of an import, and the maps to expose.

    Attributes:
        samples: an .npz file of inputs, with or without outputs; None for the card's examples.
        references: a file of inputs over which attention is observed (see `read_references`); None for none.
        interventions: add a graph whose attention requests can change, over the same weights.
        expose: names of Softmax nodes or values inside the file whose map becomes an output; `*` stands for any part.
    """

    file: Path
    card: Path
    samples: Path | None = None
    expose: Sequence[str] = ()
    references: Path | None = None
    interventions: bool = True


def import_onnx(wanted: OnnxImport, repository: Path, *, version: int = 0) -> BundleFolder:
    """Make a verified bundle REPOSITORY/<model>/<version> of an ONNX file.

    Args:
        version: version to write; 0 for the next one.
    Raises:
        ExportError: the file or the card is wrong, or the two do not fit; the message names the part.
        BundleError: the bundle cannot be written.
    """
    file = read_onnx(wanted.file)
    stated = read_card(wanted.card, file)
    target_folder(repository, stated.card.name, version)
    try:
        exported = _exported(file, stated, wanted)
    except BundleError as error:  # the preprocessing that the card states is impossible
        raise ExportError(f"{wanted.card}: {error.message}") from error
    return write_exported(exported, repository, version=version)


def _exported(file: OnnxFile, stated: CardFile, wanted: OnnxImport) -> ExportedModel:
    if stated.generation is not None:
        return _exported_pair(file, stated, stated.generation, wanted)
    card = _with_batch(file, stated.card)
    exposed = _exposed(file, wanted.expose, card)
    inner = _inner(file, card, exposed)
    session = FileSession(file, inner)
    observed, _ = observe(session, card_of_inputs(card), inner)
    card = _with_exposed(card, exposed, observed)
    complete = complete_card(card, observed, _origin(file, stated, wanted))
    reference = FileReference(session, complete)
    return _verified(reference, complete.card, tuple(bundle_graphs(file, complete)), stated, wanted)


def _exported_pair(file: OnnxFile, stated: CardFile, generation: Generation, wanted: OnnxImport) -> ExportedModel:
    if wanted.expose:
        raise ExportError("a file of a pair exposes the values that a map of the card names; leave out --expose")
    origin = _origin(file, stated, wanted)
    pair = import_pair(file, stated.card, generation, wanted.card.parent, origin)
    return _verified(pair.reference, pair.card.card, pair.graphs, stated, wanted)


def _verified(
    reference: Reference, card: Card, graphs: tuple[ExportedGraph, ...], stated: CardFile, wanted: OnnxImport
) -> ExportedModel:
    """Answer the examples, and compare the graphs with the reference."""
    if wanted.samples:
        examples = read_npz(wanted.samples, stated.card, card)
    else:
        examples = read_stated(stated.examples, stated.card, card, wanted.card.parent) or drawn_examples(card)
    held_out = () if wanted.references is None else read_references(wanted.references, card.description.inputs)
    instances = tuple(each.instance for each in examples)
    samples = tuple(answer_examples(reference, card, instances))
    if not wanted.interventions:
        graphs = tuple(each for each in graphs if not each.interventions)
    kept, problem, comparison = _compared(graphs, reference, card, instances, samples)
    check_given(examples, samples, comparison)
    why = problem if wanted.interventions else LEFT_OUT
    return ExportedModel(card.description, card, instances, samples, tuple(kept), comparison, held_out, why)


def _compared(
    graphs: tuple[ExportedGraph, ...],
    reference: Reference,
    card: Card,
    examples: Sequence[Instance],
    samples: Sequence[Sample],
) -> tuple[list[ExportedGraph], str, Comparison]:
    """Compare graphs with the reference; return them as `verified_interventions` does, and the comparison.

    ONNX Runtime rounds half precision elsewhere where outputs are others.
    """
    if not any(each.data_type == onnx.TensorProto.FLOAT16 for one in graphs for each in one.model.graph.initializer):
        comparison = verify(graphs, reference, card, largest_size=LARGEST_SIZE)
        compare_samples(graphs, card, examples, samples, comparison)
        return *verified_interventions(graphs, reference, card, comparison), comparison
    fitted = FittingComparison(card, Precision.FLOAT16, reference.name)
    verify(graphs, reference, card, fitted, largest_size=LARGEST_SIZE)
    compare_random_rows(graphs, reference, card, fitted, _FITTED_ROWS)
    compare_samples(graphs, card, examples, samples, fitted)
    fitted.fit_tolerances()
    return *verified_interventions(graphs, reference, card, fitted, Precision.FLOAT16), fitted


def _with_batch(file: OnnxFile, card: cards.Card) -> cards.Card:
    """Let the rows of a file whose batch is always 1 run one at a time."""
    if not fixed_batch(file):
        return card
    if card.batch:
        raise ExportError(f"the card says `batch = true`, and {file.path.name} takes one row at a time")
    return replace(card, batch=False)


def _exposed(file: OnnxFile, patterns: Sequence[str], card: cards.Card) -> dict[str, str]:
    """Return the values that patterns name and no map of the card reads, with the names of their maps."""
    found: list[str] = []
    for pattern in patterns:
        nodes = [value for value, node in file.softmaxes.items() if _matches(node, pattern) or _matches(value, pattern)]
        values = nodes or [value for value in sorted(file.values) if _matches(value, pattern)]
        if not values:
            known = ", ".join(map(repr, file.softmaxes.values())) or "none"
            raise ExportError(f"nothing inside {file.path.name} is called {pattern!r}; its Softmax nodes: {known}")
        found += values
    named = {each.output for each in card.maps.values()}
    return map_names([value for value in dict.fromkeys(found) if value not in named], taken=card.maps)


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or ("*" in pattern and fnmatch.fnmatchcase(name, pattern))


def map_names(values: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Name maps after values of a graph: `/encoder/layer.0/Softmax_output_0` is `encoder.layer.0`.

    Args:
        taken: names of other maps.
    """
    names: dict[str, str] = {}
    used = set(taken)
    for value in values:
        name = base = _map_name(value)
        number = 1
        while name in used:
            number += 1
            name = f"{base}.{number}"
        names[value] = name
        used.add(name)
    return names


def _map_name(value: str) -> str:
    parts = [part for part in value.replace("::", "/").split("/") if part]
    if parts and parts[-1].lower().startswith("softmax"):
        parts = parts[:-1]
    return ".".join(parts) or "attention"


def _inner(file: OnnxFile, card: cards.Card, exposed: Mapping[str, str]) -> list[str]:
    """Return the values inside the file that maps read."""
    named = [each.output for each in card.maps.values() if each.output not in file.outputs]
    for name in named:
        if name not in file.values:
            maps = next(key for key, each in card.maps.items() if each.output == name)
            raise ExportError(
                f"the card's map {maps!r} names the output {name!r}, which {file.path.name} has neither as an output "
                f"nor inside; its outputs are {', '.join(map(repr, file.outputs))}"
            )
    return list(dict.fromkeys([*named, *exposed]))


def _with_exposed(card: cards.Card, exposed: Mapping[str, str], observed: Mapping[str, Observed]) -> cards.Card:
    """Add a map for each exposed value."""
    maps = dict(card.maps)
    for value, name in exposed.items():
        made = guess_map(card, observed[value])
        if made is None:
            raise ExportError(
                f"{value!r} has the shape {list(observed[value].shapes[0])}, and which label sets its axes are is not "
                "clear; name it in a map of the card"
            )
        maps[name] = replace(made, summary=f"Weights of {value}.")
    return replace(card, maps=maps)


def _origin(file: OnnxFile, stated: CardFile, wanted: OnnxImport) -> str:
    """Say where the model and its samples come from."""
    if wanted.samples or stated.examples:
        samples = "its samples are the answers of ONNX Runtime to given inputs"
    else:
        samples = "its samples are the answers of ONNX Runtime to inputs drawn at random"
    return f"Imported from the ONNX file {file.path.name}; {samples}."
