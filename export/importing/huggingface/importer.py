"""Import of a checkpoint folder to a verified bundle."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from bundle.reader import BundleFolder
from export import pipeline
from export.conversion.precision import Precision
from export.execution.pytorch_runner import run_model
from export.importing.huggingface.architectures import architecture_of
from export.importing.huggingface.checkpoint import read_checkpoint
from export.importing.huggingface.tasks import task_of
from export.importing.huggingface.tasks.task import ImportOptions, Source
from export.writing.samples import example_rows
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
    ignored = architecture.fields.check(checkpoint.config)
    return _with_scales(chosen.build(Source(checkpoint, architecture, options or ImportOptions(), ignored)))


def _with_scales(trained: TrainedModel) -> TrainedModel:
    """State the largest values of a model's outputs, as its examples give them: logits of a vocabulary reach tens."""
    card = trained.card
    if card.generation is not None:
        return trained
    answers = [run_model(trained.model, card, card.collate([row])) for row in example_rows(trained)]
    scales = {
        each.name: max(float(np.abs(answer[each.name]).max()) for answer in answers)
        for each in card.description.outputs
    }
    return replace(trained, card=replace(card, scales=scales))


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
