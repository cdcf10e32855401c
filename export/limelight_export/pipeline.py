"""The stages of an export: trace, rewrite, verify, convert, write."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from limelight.v1 import model_pb2
from limelight_bundle.reader import BundleFolder
from limelight_bundle.writer import target_folder
from limelight_export.conversion.convert import convert
from limelight_export.conversion.half_weights import round_to_float16, store_as_float16
from limelight_export.errors import ExportError
from limelight_export.execution import pytorch_runner
from limelight_export.execution.onnx_runner import onnx_runtime
from limelight_export.exported_graph import ExportedGraph
from limelight_export.precision import Precision
from limelight_export.tracing.build import build_graphs
from limelight_export.verification.compare_samples import compare_samples
from limelight_export.verification.interventions import verified_interventions
from limelight_export.verification.samples import make_samples
from limelight_export.verification.verify import verify
from limelight_export.writing.exported_model import LEFT_OUT, ExportedModel, write_exported
from limelight_models.cards.card import TrainedModel


def export_model(
    trained: TrainedModel,
    repository: Path,
    *,
    version: int = 0,
    precision: str = Precision.FLOAT32,
    half_weights: bool = False,
    interventions: bool = True,
    graphs: list[ExportedGraph] | None = None,
    largest_size: int = 0,
    report: Callable[[str], None] = lambda stage: None,
) -> BundleFolder:
    """Export a model, verify its graphs, and write REPOSITORY/<model>/<version> completely or not at all.

    Args:
        version: version to write; 0 for the next one.
        precision: precision to which the verified graphs are converted.
        half_weights: round weights to float16 and store them so; computation stays in float32.
        interventions: add a graph whose attention requests can change, over the same weights.
        graphs: graphs that are built already. They are verified as well.
        largest_size: as of `verify`.
        report: is called with the name of each stage when it is done.
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
    graphs = graphs or build_graphs(trained.model, trained.card, interventions=interventions)
    report("graphs traced")
    if half_weights:
        graphs = [replace(graph, model=store_as_float16(graph.model)) for graph in graphs]
    reference = pytorch_runner.PyTorchReference(trained.model, trained.card)
    comparison = verify(graphs, reference, trained.card, largest_size=largest_size)
    compare_samples(graphs, trained.card, trained.examples, samples, comparison)
    graphs, problem = verified_interventions(graphs, reference, trained.card, comparison)
    report("answers compared with PyTorch's")
    if wanted is not Precision.FLOAT32:
        converted = convert(trained, graphs, samples, wanted)
        graphs, comparison, problem = converted.graphs, converted.comparison, problem or converted.problem
        trained = replace(trained, metrics=converted.metrics)
        report(f"converted to {wanted}")
    exported = ExportedModel(
        _description(trained, wanted),
        trained.card,
        tuple(trained.examples),
        tuple(samples),
        tuple(graphs),
        comparison,
        tuple(trained.held_out()),
        problem if interventions else LEFT_OUT,
    )
    folder = write_exported(exported, repository, version=version)
    report("bundle written and checked")
    return folder


def _description(trained: TrainedModel, precision: Precision) -> model_pb2.ModelDescription:
    description = model_pb2.ModelDescription()
    description.CopyFrom(trained.card.description)
    description.precision = precision.describe()
    description.training_data.CopyFrom(trained.training_data.describe())
    del description.metrics[:]
    description.metrics.extend(each.describe() for each in trained.metrics)
    return description
