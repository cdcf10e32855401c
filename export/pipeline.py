"""The stages of an export: trace, rewrite, verify, convert, write."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from bundle.maps import map_key, map_quantities
from bundle.names import SAMPLES_FILE
from bundle.reader import BundleFolder
from bundle.samples import samples_file
from bundle.v1 import bundle_pb2
from bundle.wire import instance_to_wire
from bundle.writer import target_folder, write_bundle
from export.conversion.convert import convert
from export.conversion.half_weights import round_to_float16, store_as_float16
from export.conversion.precision import Precision
from export.errors import ExportError
from export.execution import pytorch_runner
from export.execution.onnx_runner import onnx_runtime
from export.exported_graph import ExportedGraph
from export.interface import map_binding
from export.tracing.build import build_graphs
from export.verification.comparison import Comparison
from export.verification.verify import verify
from export.writing.external_weights import graph_files
from export.writing.library_versions import library_versions
from export.writing.samples import make_samples
from limelight.v1 import attention_pb2, model_pb2
from models.cards.card import Card, TrainedModel


def export_model(
    trained: TrainedModel,
    repository: Path,
    *,
    version: int = 0,
    precision: str = Precision.FLOAT32,
    half_weights: bool = False,
    graphs: list[ExportedGraph] | None = None,
    largest_size: int = 0,
) -> BundleFolder:
    """Export a model, verify its graphs, and write REPOSITORY/<model>/<version> completely or not at all.

    Args:
        version: version to write; 0 for the next one.
        precision: precision to which the verified graphs are converted.
        half_weights: round weights to float16 and store them so; computation stays in float32.
        graphs: graphs that `export.tracing.shared_trace` has built already. They are verified as well.
        largest_size: as of `verify`.
    Raises:
        ExportError: the model cannot be exported or converted, or a graph's answers differ from PyTorch's.
        BundleError: the bundle cannot be written.
        DataError, RunError: the held-out data are missing on which a conversion is measured.
    """
    # Check everything that is cheap before a minute of work.
    onnx_runtime()
    target_folder(repository, trained.card.description.name, version)
    wanted = Precision(precision)
    if half_weights and wanted is not Precision.FLOAT32:
        raise ExportError(f"half weights are for {Precision.FLOAT32}: {wanted} weights are small already")
    trained = replace(trained, model=pytorch_runner.copy_for_export(trained.model))
    trained = round_to_float16(trained) if half_weights else trained
    samples = make_samples(trained)
    graphs = graphs or build_graphs(trained.model, trained.card)
    if half_weights:
        graphs = [replace(graph, model=store_as_float16(graph.model)) for graph in graphs]
    comparison = verify(graphs, trained.model, trained.card, largest_size=largest_size)
    if wanted is not Precision.FLOAT32:
        converted = convert(trained, graphs, samples, wanted)
        graphs, comparison = converted.graphs, converted.comparison
        trained = replace(trained, metrics=converted.metrics)
    files: dict[str, bytes | Path] = {name: text.encode() for name, text in trained.card.files.items()}
    files[SAMPLES_FILE] = samples_file(samples)
    with TemporaryDirectory() as scratch:
        for graph in graphs:
            files |= graph_files(graph.file, graph.model, Path(scratch))
        return write_bundle(repository, _bundle(trained, graphs, comparison, wanted), files, version=version)


def _bundle(
    trained: TrainedModel, graphs: list[ExportedGraph], comparison: Comparison, precision: Precision
) -> bundle_pb2.Bundle:
    card = trained.card
    return bundle_pb2.Bundle(
        description=_description(trained, precision),
        graphs=[
            bundle_pb2.OnnxGraph(
                name=graph.name,
                file=graph.file,
                inputs=[spec.name for spec in graph.inputs],
                outputs=[
                    *(spec.name for spec in graph.outputs),
                    *dict.fromkeys(name for each in graph.optional_maps.values() for name in each.outputs),
                ],
                packed=graph.packing_masks,
            )
            for graph in graphs
        ],
        tensors=card.tensors,
        preprocessing=card.preprocessing,
        maps=[
            _map_binding(card, each.name, quantity, graphs) for each, quantity in map_quantities(card.description.maps)
        ],
        generation=card.generation,
        noise=card.noise,
        tolerances=comparison.tolerances,
        parity=comparison.parity(),
        library_versions=library_versions(),
    )


def _description(trained: TrainedModel, precision: Precision) -> model_pb2.ModelDescription:
    description = model_pb2.ModelDescription()
    description.CopyFrom(trained.card.description)
    description.precision = precision.describe()
    description.training_data.CopyFrom(trained.training_data.describe())
    del description.metrics[:], description.examples[:]
    description.metrics.extend(each.describe() for each in trained.metrics)
    description.examples.extend(instance_to_wire(each) for each in trained.examples)
    return description


def _map_binding(
    card: Card, name: str, quantity: attention_pb2.Quantity, graphs: list[ExportedGraph]
) -> bundle_pb2.MapBinding:
    key = map_key(name, quantity)
    graph = next(graph for graph in graphs if any(spec.name == key for spec in graph.outputs))
    binding = map_binding(card, name, quantity, graph.name)
    if key in graph.optional_maps:
        graph.optional_maps[key].fill_binding(binding)
    return binding
