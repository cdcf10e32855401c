"""Export of trained models to bundles whose graphs answer as PyTorch does."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bundle.offline import disable_telemetry
from bundle.reader import BundleFolder
from export.conversion.precision import Precision

if TYPE_CHECKING:
    from models.cards.card import TrainedModel

# PyTorch and onnxscript import ONNX Runtime themselves.
disable_telemetry()

# The functions import PyTorch when called: that takes seconds, which `--help` does not need.


def export_model(
    trained: "TrainedModel",
    repository: Path,
    *,
    version: int = 0,
    precision: str = Precision.FLOAT32,
    half_weights: bool = False,
) -> BundleFolder:
    """Export a model to REPOSITORY/<model>/<version>.

    Args:
        version: version to write; 0 for the next one.
        precision: float32, float16 (for CUDA) or int8 (for CPUs).
        half_weights: store the weights of a float32 bundle as float16. `trained.judge` measures the loss in quality of
            this and of a lower precision.
    Raises:
        ExportError: the model cannot be exported or converted, or a graph's answers differ from PyTorch's.
        BundleError: the bundle cannot be written.
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
    """Export the run folder of `limelight train`. Arguments as for `export_model`.

    Raises:
        RunError, DataError: the run folder cannot be read, or the data are missing on which metrics are measured again.
        ExportError, BundleError: as for `export_model`.
    """
    from models.training.held_out import judge_of
    from models.training.runs import load_run

    trained = replace(load_run(run_folder), judge=judge_of(run_folder))
    return export_model(trained, repository, version=version, precision=precision, half_weights=half_weights)
