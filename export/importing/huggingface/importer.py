"""Import of a checkpoint folder to a verified bundle."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from bundle.reader import BundleFolder
from bundle.rows import Row
from bundle.values import Array
from export import pipeline
from export.conversion.precision import Precision
from export.errors import CheckpointError
from export.execution.generation import run_generation
from export.execution.pytorch_runner import PyTorchGenerationRunner, run_model
from export.execution.random_inputs import batch_sizes
from export.importing.huggingface.architectures import architecture_of
from export.importing.huggingface.architectures.architecture import Architecture
from export.importing.huggingface.checkpoint import read_checkpoint
from export.importing.huggingface.tasks import task_of
from export.importing.huggingface.tasks.task import ImportOptions, Source
from export.verification.comparison import possible_values
from export.writing.samples import example_rows
from limelight.v1 import model_pb2
from models.cards.card import TrainedModel

_STEPS = 4  # of a generating model, whose values are taken as usual
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
    return _with_scales(trained)


def _check_options(architecture: Architecture, options: ImportOptions) -> None:
    if options.language and architecture.kind != "speech":
        raise CheckpointError(f"{architecture.title} reads no speech; leave out --language")
    if options.labels and architecture.kind != "two-tower":
        raise CheckpointError(f"{architecture.title} compares no pictures with texts; leave out --label and --labels")
    if (options.size or options.threshold is not None) and architecture.kind != "detection":
        raise CheckpointError(f"{architecture.title} finds no objects; leave out --size and --threshold")


def _with_scales(trained: TrainedModel) -> TrainedModel:
    """State the largest values of what a model computes, as its examples give them: logits of a vocabulary reach tens,
    and so do keys and values.
    """
    scales: dict[str, float] = {}
    for row in example_rows(trained.card, trained.examples):
        for name, array in _computed(trained, row).items():
            largest = float(np.abs(possible_values(array)).max(initial=0.0))
            scales[name] = max(scales.get(name, 0.0), largest)
    return replace(trained, card=replace(trained.card, scales=scales))


def _computed(trained: TrainedModel, row: Row) -> Mapping[str, Array]:
    """Compute a row's outputs, and what passes between the parts of a generating model, by name."""
    card, tensors = trained.card, trained.card.collate([row])
    if card.generation is None:
        answer = run_model(trained.model, card, tensors)
        return {each.name: answer[each.name] for each in card.description.outputs}
    runner = PyTorchGenerationRunner(trained.model, card)
    trace = run_generation(runner, card, tensors, batch_sizes([row]), _first_steps)
    maps = {each.name for each in card.description.maps}
    parts = {**trace.encoded, **trace.prefilled, card.generation.scores_output: trace.scores}
    return {name: array for name, array in parts.items() if name not in maps} | {
        name: np.concatenate(steps) for name, steps in trace.states.items()
    }


def _first_steps(step: int, scores: Array) -> tuple[Array, bool]:
    """Choose the best tokens of a few steps."""
    best: Array = scores.argmax(axis=-1)
    return best, step + 1 == _STEPS


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
