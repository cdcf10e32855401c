"""Writing of a verified model as a bundle."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from limelight.v1 import attention_pb2, model_pb2, values_pb2
from limelight_bundle.attention_signals import references
from limelight_bundle.errors import BundleError
from limelight_bundle.maps import VALUE_AXES, VALUES, map_key, map_quantities
from limelight_bundle.names import SAMPLES_FILE
from limelight_bundle.reader import BundleFolder
from limelight_bundle.samples import Sample, samples_file
from limelight_bundle.tolerance import Tolerances
from limelight_bundle.v1 import bundle_pb2
from limelight_bundle.values import Instance
from limelight_bundle.wire import instance_to_wire
from limelight_bundle.writer import write_bundle
from limelight_export.execution.external_weights import graph_files
from limelight_export.exported_graph import ExportedGraph
from limelight_export.interface import TensorSpec, hidden_names, map_binding
from limelight_export.surgery.gated_outputs import gate_name
from limelight_export.verification.compare_samples import observed_attention
from limelight_export.verification.comparison import Comparison
from limelight_export.writing.library_versions import library_versions
from limelight_models.cards.card import Card

LEFT_OUT = "the bundle was made with --no-interventions; make it without"


@dataclass(frozen=True)
class ExportedModel:
    """A model whose graphs are verified.

    Attributes:
        description: the public description, without version and examples.
        samples: the reference's answers to the examples, in order.
        comparison: the comparison of the graphs with the reference.
        held_out: inputs like those that a server will get, over which attention is observed.
        unchangeable: why no map takes interventions, in one sentence; empty where some may.
    """

    description: model_pb2.ModelDescription
    card: Card
    examples: tuple[Instance, ...]
    samples: tuple[Sample, ...]
    graphs: tuple[ExportedGraph, ...]
    comparison: Comparison
    held_out: tuple[Instance, ...] = ()
    unchangeable: str = ""


def write_exported(exported: ExportedModel, repository: Path, *, version: int = 0) -> BundleFolder:
    """Write REPOSITORY/<model>/<version> completely or not at all.

    Args:
        version: version to write; 0 for the next one.
    Raises:
        BundleError: the bundle cannot be written.
    """
    files: dict[str, bytes | Path] = {name: text.encode() for name, text in exported.card.files.items()}
    files[SAMPLES_FILE] = samples_file(rounded_samples(exported))
    with TemporaryDirectory() as scratch:
        try:
            files |= graph_files({graph.file: graph.model for graph in exported.graphs}, Path(scratch))
        except OSError as error:
            name, reason = exported.description.name, error.strerror or error
            raise BundleError(
                f"{name} cannot be written ({reason}); its weights are put together in a temporary folder first: make "
                "room there, or set TMPDIR to another"
            ) from error
        return write_bundle(repository, _bundle(exported), files, version=version)


def rounded_samples(exported: ExportedModel) -> list[Sample]:
    """Round the maps of the samples by at most a quarter of their tolerance on a CPU, which is the strictest."""
    tolerances = Tolerances(exported.comparison.tolerances, "CPUExecutionProvider")
    return [
        replace(
            sample,
            maps={
                name: replace(each, weights=tolerances.rounded(name, each.weights))
                for name, each in sample.maps.items()
            },
        )
        for sample in exported.samples
    ]


def _bundle(exported: ExportedModel) -> bundle_pb2.Bundle:
    card = exported.card
    description = model_pb2.ModelDescription()
    description.CopyFrom(exported.description)
    del description.examples[:]
    description.examples.extend(instance_to_wire(each) for each in exported.examples)
    for each in description.maps:
        if any(each.name in graph.interventions for graph in exported.graphs):
            each.interventions.extend((values_pb2.INTERVENTION_KIND_HEAD_SCALES, values_pb2.INTERVENTION_KIND_WEIGHTS))
            if each.normalised:
                each.interventions.append(values_pb2.INTERVENTION_KIND_KEY_FACTOR)
        else:
            each.no_interventions = _unchangeable(exported, each)
    for each in description.maps:
        if (spec := _values_of(exported.graphs, each.name)) is not None:
            each.quantities.append(VALUES)
            each.value_size = int(spec.axes[-1])
    bundle = card.bundle()
    bundle.description.CopyFrom(description)
    bundle.graphs.extend(_graph(each) for each in exported.graphs)
    bundle.maps.extend(
        _map_binding(exported, each.name, quantity) for each, quantity in map_quantities(description.maps)
    )
    for name in hidden_names(card):
        graph = next(graph for graph in exported.graphs if any(spec.name == name for spec in graph.outputs))
        bundle.hidden.add(name=name, graph=graph.name, gate=gate_name(name) if name in graph.gated else "")
    bundle.tolerances.extend(exported.comparison.tolerances)
    bundle.parity.extend(exported.comparison.parity())
    bundle.library_versions.update(library_versions())
    observed = observed_attention(exported.graphs, card, exported.held_out)
    bundle.attention_references.extend(references(description.maps, observed))
    return bundle


def _values_of(graphs: Sequence[ExportedGraph], name: str) -> TensorSpec | None:
    """Return the output for the values of a map; None where a graph that puts out the map has none."""
    first, *others = [each.values.get(name) for each in graphs if any(spec.name == name for spec in each.outputs)]
    return first if all(each == first for each in others) else None


def _unchangeable(exported: ExportedModel, description: model_pb2.MapDescription) -> str:
    """Say why a map takes no interventions."""
    if exported.unchangeable:
        return exported.unchangeable
    if description.name in exported.card.derived_maps:
        return "it is made of other maps, which take them"
    if description.features:
        return "its weights have features"
    return "it is not the weights of one attention, as they are used"


def _graph(graph: ExportedGraph) -> bundle_pb2.OnnxGraph:
    requested = dict.fromkeys(name for each in graph.optional_maps.values() for name in each.outputs)
    requested |= dict.fromkeys(each.name for each in graph.values.values())
    requested |= dict.fromkeys(each.masked for each in graph.interventions.values() if each.masked)
    return bundle_pb2.OnnxGraph(
        name=graph.name,
        file=graph.file,
        inputs=[spec.name for spec in graph.inputs],
        outputs=[*(spec.name for spec in graph.outputs), *requested],
        packed=graph.packing_masks,
    )


def _map_binding(exported: ExportedModel, name: str, quantity: attention_pb2.Quantity) -> bundle_pb2.MapBinding:
    if quantity == VALUES:
        return _value_binding(exported, name)
    key = map_key(name, quantity)
    graph = next(graph for graph in exported.graphs if any(spec.name == key for spec in graph.outputs))
    binding = map_binding(exported.card, name, quantity, graph.name)
    if key in graph.gated:
        binding.gate = gate_name(key)
    if key in graph.optional_maps:
        graph.optional_maps[key].fill_binding(binding)
    for each in exported.graphs:
        if key in each.interventions:
            each.interventions[key].fill_binding(binding)
    return binding


def _value_binding(exported: ExportedModel, name: str) -> bundle_pb2.MapBinding:
    graph = next(graph for graph in exported.graphs if name in graph.values)
    spec = graph.values[name]
    axes = [axis for axis in VALUE_AXES if axis != bundle_pb2.AXIS_HEAD or len(spec.axes) == len(VALUE_AXES)]
    binding = bundle_pb2.MapBinding(map=name, quantity=VALUES, graph=graph.name, output=spec.name, axes=axes)
    if name in graph.optional_maps:
        binding.gate = graph.optional_maps[name].projections_gate
    return binding
