"""Import of a checkpoint folder to a verified bundle."""

from pathlib import Path

from bundle.reader import BundleFolder
from export import pipeline
from export.conversion.precision import Precision
from export.errors import CheckpointError
from export.importing.huggingface.architectures import architecture_of
from export.importing.huggingface.architectures.architecture import Architecture
from export.importing.huggingface.checkpoint import read_checkpoint
from export.importing.huggingface.tasks import task_of
from export.importing.huggingface.tasks.task import ImportOptions, Source
from limelight.v1 import model_pb2
from models.cards.card import TrainedModel

# Tokens of the longest row that is compared: the maximum of most encoders, a second for a model of MiniLM's size.
_LARGEST_SIZE = 512


def read_model(folder: Path, *, task: str = "", options: ImportOptions | None = None) -> TrainedModel:
    """Read a checkpoint folder as a model that can be exported.

    Args:
        task: name of a task; empty for the one that the checkpoint states.
    Raises:
        CheckpointError: the checkpoint cannot be imported: what it states, and what to do.
    """
    checkpoint = read_checkpoint(folder)
    architecture = architecture_of(checkpoint)
    chosen = task_of(checkpoint, architecture, task)
    if options is not None:
        _check_options(architecture, options)
    ignored = architecture.check(checkpoint.config)
    trained = chosen.build(Source(checkpoint, architecture, options or ImportOptions()))
    trained.card.description.source.CopyFrom(
        model_pb2.Source(
            classes=checkpoint.classes or [architecture.title], licence=checkpoint.licence, ignored_fields=ignored
        )
    )
    return trained


def _check_options(architecture: Architecture, options: ImportOptions) -> None:
    if options.language and architecture.kind != "speech":
        raise CheckpointError(f"{architecture.title} reads no speech; leave out --language")
    if options.labels and architecture.kind != "two-tower":
        raise CheckpointError(f"{architecture.title} compares no pictures with texts; leave out --label and --labels")
    if (options.size or options.threshold is not None) and architecture.kind != "detection":
        raise CheckpointError(f"{architecture.title} finds no objects; leave out --size and --threshold")


def import_checkpoint(
    folder: Path,
    repository: Path,
    *,
    task: str = "",
    options: ImportOptions | None = None,
    version: int = 0,
    precision: str = Precision.FLOAT32,
    half_weights: bool = False,
) -> BundleFolder:
    """Import a checkpoint folder to REPOSITORY/<model>/<version>, verified against transformers' eager attention.

    Args:
        version, precision, half_weights: as of `export_model`.
    Raises:
        CheckpointError: as of `read_model`.
        ExportError: the graph answers differently from transformers.
        BundleError: the bundle cannot be written.
    """
    trained = read_model(folder, task=task, options=options)
    return pipeline.export_model(
        trained,
        repository,
        version=version,
        precision=precision,
        half_weights=half_weights,
        largest_size=_LARGEST_SIZE,
    )
