"""From a trained model to a bundle in a repository."""

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
from export.conversion.half_weights import halve_weights, rounded
from export.conversion.precision import Precision
from export.errors import ExportError
from export.execution import pytorch_runner
from export.execution.onnx_runner import onnx_runtime
from export.exported_graph import Graph
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
    graphs: list[Graph] | None = None,
) -> BundleFolder:
    """Export a model, prove that its graphs answer as it does, and write REPOSITORY/<model>/<version>, whole or not.

    version: 0 for the next one. precision: what the graphs are converted to once they are proven. half_weights: whether
    weights are rounded to what float16 has, and stored as that; the arithmetic stays float32. graphs: where they were
    made already, with those of other models (`export.tracing.shared_trace`); they are compared all the same.
    Raises: ExportError where the model cannot be exported or converted, or answers otherwise than PyTorch; BundleError
    where the bundle cannot be written; DataError or RunError where a conversion cannot be judged on held-out data.
    """
    # What can be refused is best refused before a minute of work.
    onnx_runtime()
    target_folder(repository, trained.card.description.name, version)
    wanted = Precision(precision)
    if half_weights and wanted is not Precision.FLOAT32:
        raise ExportError(f"weights are small in {wanted} as it is: half weights are for {Precision.FLOAT32}")
    trained = replace(trained, model=pytorch_runner.for_export(trained.model))
    trained = rounded(trained) if half_weights else trained
    samples = make_samples(trained)
    graphs = graphs or build_graphs(trained.model, trained.card)
    if half_weights:
        graphs = [replace(graph, model=halve_weights(graph.model)) for graph in graphs]
    comparison = verify(graphs, trained.model, trained.card)
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
    trained: TrainedModel, graphs: list[Graph], comparison: Comparison, precision: Precision
) -> bundle_pb2.Bundle:
    card = trained.card
    return bundle_pb2.Bundle(
        description=_description(trained, precision),
        graphs=[
            bundle_pb2.OnnxGraph(
                name=graph.name,
                file=graph.file,
                inputs=[port.name for port in graph.inputs],
                outputs=[
                    *(port.name for port in graph.outputs),
                    *dict.fromkeys(name for each in graph.switches.values() for name in each.outputs),
                ],
                packed=graph.packed,
            )
            for graph in graphs
        ],
        tensors=card.tensors,
        preprocessing=card.preprocessing,
        maps=[_binding(card, each.name, quantity, graphs) for each, quantity in map_quantities(card.description.maps)],
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


def _binding(card: Card, name: str, quantity: attention_pb2.Quantity, graphs: list[Graph]) -> bundle_pb2.MapBinding:
    key = map_key(name, quantity)
    graph = next(graph for graph in graphs if any(port.name == key for port in graph.outputs))
    binding = map_binding(card, name, quantity, graph.name)
    if key in graph.switches:
        graph.switches[key].bind(binding)
    return binding
