"""From a trained model to a bundle that is proven to answer as PyTorch does."""

from pathlib import Path
from typing import TYPE_CHECKING

from bundle.reader import BundleFolder

if TYPE_CHECKING:
    from models.cards.card import TrainedModel

# What needs PyTorch is imported in the functions: it takes seconds, and the command line's help does without.


def export_model(trained: "TrainedModel", repository: Path, *, version: int = 0) -> BundleFolder:
    """Export a model to REPOSITORY/<model>/<version>, 0 for the next version.

    Raises: ExportError where it cannot be exported, or answers otherwise than in PyTorch; BundleError where the bundle
    cannot be written.
    """
    from export import pipeline

    return pipeline.export_model(trained, repository, version=version)


def export_run(run_folder: Path, repository: Path, *, version: int = 0) -> BundleFolder:
    """Export what `limelight train` left in a run folder.

    Raises: RunError or DataError where the folder cannot be read, and what `export_model` raises.
    """
    from models.training.runs import load_run

    return export_model(load_run(run_folder), repository, version=version)
