"""From a trained model to a bundle that is proven to answer as PyTorch does."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bundle.offline import disable_telemetry
from bundle.reader import BundleFolder
from export.conversion.precision import Precision

if TYPE_CHECKING:
    from models.cards.card import TrainedModel

# PyTorch and onnxscript import ONNX Runtime by themselves, whichever module here brings them in first.
disable_telemetry()

# What needs PyTorch is imported in the functions: it takes seconds, and the command line's help does without.


def export_model(
    trained: "TrainedModel",
    repository: Path,
    *,
    version: int = 0,
    precision: str = Precision.FLOAT32,
    half_weights: bool = False,
) -> BundleFolder:
    """Export a model to REPOSITORY/<model>/<version>, 0 for the next version.

    precision: float32, float16 (for CUDA) or int8 (for CPUs). half_weights: whether weights of a float32 bundle are
    stored as float16. What a model loses by either is measured by `trained.judge`.
    Raises: ExportError where it cannot be exported or converted, or answers otherwise than in PyTorch; BundleError
    where the bundle cannot be written.
    """
    from export import pipeline

    return pipeline.export_model(trained, repository, version=version, precision=precision, half_weights=half_weights)


def export_run(
    run_folder: Path,
    repository: Path,
    *,
    version: int = 0,
    precision: str = Precision.FLOAT32,
    half_weights: bool = False,
) -> BundleFolder:
    """Export what `limelight train` left in a run folder.

    Raises: RunError or DataError where the folder, or for figures that change the data, cannot be read, and what
    `export_model` raises.
    """
    from models.training.held_out import judge_of
    from models.training.runs import load_run

    trained = replace(load_run(run_folder), judge=judge_of(run_folder))
    return export_model(trained, repository, version=version, precision=precision, half_weights=half_weights)
