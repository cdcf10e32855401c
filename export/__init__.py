"""From a trained model to a bundle that is proven to answer as PyTorch does."""

from pathlib import Path
from typing import TYPE_CHECKING

from bundle.reader import BundleFolder

if TYPE_CHECKING:
    from models.card import TrainedModel


def export_model(trained: "TrainedModel", repository: Path, *, version: int = 0) -> BundleFolder:
    """Export a model to REPOSITORY/<model>/<version>; see `export.pipeline.export_model`."""
    from export import pipeline  # imported here: PyTorch takes seconds, and the command line's help does not need it

    return pipeline.export_model(trained, repository, version=version)
