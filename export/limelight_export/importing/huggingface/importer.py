"""Import of a checkpoint folder to a verified bundle.

What files alone can tell is checked before PyTorch and transformers are imported, which takes seconds.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from limelight.v1 import model_pb2
from limelight_bundle.errors import LimelightError
from limelight_bundle.reader import BundleFolder
from limelight_bundle.values import Pair, Text
from limelight_export.errors import CheckpointError
from limelight_export.importing.huggingface.architectures import architecture_of
from limelight_export.importing.huggingface.architectures.architecture import DETECTION, Architecture
from limelight_export.importing.huggingface.checkpoint import TOKENIZER, Checkpoint, read_checkpoint
from limelight_export.importing.huggingface.tasks import task_of
from limelight_export.importing.huggingface.tasks.task import ImportOptions, Source, Task
from limelight_export.importing.huggingface.text import check_vocabulary, read_tokenizer
from limelight_export.importing.references import read_references
from limelight_export.precision import Precision
from limelight_models.cards.card import TrainedModel

# Tokens of the longest row that is compared: the maximum of most encoders, a second for a model of MiniLM's size.
_LARGEST_SIZE = 512


def read_model(
    folder: Path,
    *,
    task: str = "",
    options: ImportOptions | None = None,
    report: Callable[[str], None] = lambda stage: None,
) -> TrainedModel:
    """Read a checkpoint folder as a model that can be exported.

    Args:
        task: name of a task; empty for the one that the checkpoint states.
        report: is called with the name of each stage when it is done.
    Raises:
        CheckpointError: the checkpoint cannot be imported: what it states, and what to do.
        ExportError: the references are not what the model takes, or too few.
    """
    checkpoint = read_checkpoint(folder)
    source, chosen, ignored = check_description(checkpoint, task=task, options=options)
    repository, revision = checkpoint.origin
    report("files checked")
    trained = _build(source, chosen, report)
    trained.card.description.source.CopyFrom(
        model_pb2.Source(
            classes=checkpoint.classes or [source.architecture.title],
            licence=checkpoint.licence,
            ignored_fields=ignored,
            repository=repository,
            revision=revision,
        )
    )
    if source.options.references is None:
        return trained
    references = read_references(source.options.references, trained.card.description.inputs)
    return replace(trained, held_out=lambda: references)


def check_description(
    checkpoint: Checkpoint, *, task: str = "", options: ImportOptions | None = None
) -> tuple[Source[Any], Task, Sequence[str]]:
    """Check what a checkpoint states, before its weights are there.

    Returns: the checkpoint with its architecture, its task, and the fields of its configuration without effect.
    Raises: CheckpointError as of `read_model`.
    """
    architecture = architecture_of(checkpoint)
    chosen = task_of(checkpoint, architecture, task)
    source: Source[Any] = Source(checkpoint, architecture, options or ImportOptions())
    _check_options(architecture, source.options)
    ignored = architecture.check(checkpoint.config)
    if chosen.processor:
        checkpoint.processor(chosen.processor)
    if chosen.reads_text:
        check_vocabulary(checkpoint)
        if checkpoint.file(TOKENIZER) is not None:
            read_tokenizer(checkpoint, _vocabulary(checkpoint.config))
    return source, chosen, ignored


def _build(source: Source[Any], task: Task, report: Callable[[str], None]) -> TrainedModel:
    """Load the model, and compare token ids with those of transformers. Raises CheckpointError as of `read_model`."""
    if not task.reads_text:
        trained = _made(task, source)
        report("weights loaded")
        return trained
    from limelight_export.importing.huggingface.library_tokenizer import TokenizerComparison
    from limelight_export.importing.huggingface.tokenizer_conversion import with_tokenizer

    source = replace(source, checkpoint=with_tokenizer(source.checkpoint))
    tokenizer = read_tokenizer(source.checkpoint, _vocabulary(source.checkpoint.config))
    comparison = TokenizerComparison(source.checkpoint, tokenizer, special_tokens=task.kind != "speech")
    comparison.check_kinds(pairs=task.reads_pairs)
    comparison.check([(source.options.prompt.replace("{}", label),) for label in source.options.labels])
    report(f"token ids {'' if comparison.is_possible else 'not '}compared with transformers'")
    trained = _made(task, source)
    texts = [value for example in trained.examples for value in example.values()]
    comparison.check([(each.text,) for each in texts if isinstance(each, Text)])
    comparison.check([(each.first, each.second) for each in texts if isinstance(each, Pair)])
    report("weights loaded")
    return trained


def _made(task: Task, source: Source[Any]) -> TrainedModel:
    """Make the model of a task. Raises CheckpointError, also for sizes with which transformers' modules fail."""
    try:
        return task.build(source)
    except LimelightError:
        raise
    except Exception as error:  # transformers and PyTorch raise many types
        reason = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise CheckpointError(f"transformers cannot compute the checkpoint as it states itself: {reason}") from error


def _vocabulary(config: Mapping[str, Any]) -> int:
    """Return the number of token ids that a configuration states; without a limit where it states none."""
    stated = config.get("vocab_size")
    if stated is None and isinstance(config.get("text_config"), dict):
        stated = config["text_config"].get("vocab_size")
    return stated if isinstance(stated, int) else sys.maxsize


def _check_options(architecture: Architecture, options: ImportOptions) -> None:
    if options.language and architecture.kind != "speech":
        raise CheckpointError(f"{architecture.title} reads no speech; leave out --language")
    if options.labels and architecture.kind != "two-tower":
        raise CheckpointError(f"{architecture.title} compares no pictures with texts; leave out --label and --labels")
    if (options.size or options.threshold is not None) and architecture.kind not in DETECTION:
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
    interventions: bool = True,
    report: Callable[[str], None] = lambda stage: None,
) -> BundleFolder:
    """Import a checkpoint folder to REPOSITORY/<model>/<version>, verified against transformers' eager attention.

    Args:
        version, precision, half_weights, interventions: as of `export_model`.
        report: as of `read_model`.
    Raises:
        CheckpointError: as of `read_model`; or the bundle's folder would be the checkpoint's.
        ExportError: the graph answers differently from transformers.
        BundleError: the bundle cannot be written.
    """
    trained = read_model(folder, task=task, options=options, report=report)
    name = trained.card.description.name
    if (repository / name).resolve() == folder.resolve():
        raise CheckpointError(
            f"{repository / name} is the checkpoint itself, and the bundle would be written into it; choose another "
            "--repository or --name"
        )
    from limelight_export import pipeline

    return pipeline.export_model(
        trained,
        repository,
        version=version,
        precision=precision,
        half_weights=half_weights,
        interventions=interventions,
        largest_size=_LARGEST_SIZE,
        report=report,
    )
