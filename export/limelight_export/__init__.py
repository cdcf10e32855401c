"""Export of trained models to bundles whose graphs answer as PyTorch does."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limelight.base import installing
from limelight_bundle.offline import disable_telemetry
from limelight_bundle.reader import BundleFolder
from limelight_export.importing.cards import Boxes, Card, Classes, Embedding, Image, Map, Mask, Numbers, Tensor, Text
from limelight_export.precision import Precision

if TYPE_CHECKING:
    from torch import nn

    from limelight_models.cards.card import TrainedModel

__all__ = [
    "Boxes",
    "Card",
    "Classes",
    "Embedding",
    "Image",
    "Map",
    "Mask",
    "Numbers",
    "Tensor",
    "Text",
    "export_model",
    "export_module",
    "export_run",
]

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
    interventions: bool = True,
) -> BundleFolder:
    """Export a model to REPOSITORY/<model>/<version>.

    Args:
        version: version to write; 0 for the next one.
        precision: float32, float16 (for CUDA) or int8 (for CPUs).
        half_weights: store the weights of a float32 bundle as float16. `trained.judge` measures the loss in quality of
            this and of a lower precision.
        interventions: add a graph whose attention requests can change, over the same weights.
    Raises:
        ExportError: the model cannot be exported or converted, or a graph's answers differ from PyTorch's.
        BundleError: the bundle cannot be written.
    """
    _require_pytorch()
    from limelight_export import pipeline

    return pipeline.export_model(
        trained,
        repository,
        version=version,
        precision=precision,
        half_weights=half_weights,
        interventions=interventions,
    )


def export_run(
    run_folder: Path,
    repository: Path,
    *,
    version: int = 0,
    precision: str = Precision.FLOAT32,
    half_weights: bool = False,
    interventions: bool = True,
) -> BundleFolder:
    """Export the run folder of `limelight train`. Arguments as for `export_model`.

    Raises:
        RunError, DataError: the run folder cannot be read, or the data are missing on which metrics are measured again.
        ExportError, BundleError: as for `export_model`.
    """
    from limelight_models.training.held_out import inputs_of, judge_of
    from limelight_models.training.runs import load_run

    trained = replace(load_run(run_folder), judge=judge_of(run_folder), held_out=partial(inputs_of, run_folder))
    return export_model(
        trained,
        repository,
        version=version,
        precision=precision,
        half_weights=half_weights,
        interventions=interventions,
    )


def export_module(
    module: "nn.Module",
    *,
    card: Card,
    examples: Sequence[Any],
    repository: Path | str,
    references: Sequence[Any] = (),
    version: int = 0,
    precision: str = Precision.FLOAT32,
    half_weights: bool = False,
    interventions: bool = True,
) -> BundleFolder:
    """Export any PyTorch module, with a card that says what its inputs, outputs and maps are.

    Attention by `F.scaled_dot_product_attention`, `nn.MultiheadAttention` and `nn.TransformerEncoder` inside the module
    is found: a map of the card can name it by the path of its submodule, such as `encoder.layers.0.self_attn`, and
    attention whose axes are label sets of the card becomes a map under this name without being named.

    Args:
        module: returns a tensor, or tensors in a dict, tuple or dataclass. It is copied, to float32, on the CPU.
        examples: at least one: a dict of a value for each input, or the value of the only input. Strings, arrays or
            lists of numbers, pictures of Pillow, bytes or paths of files.
        references: at least 100 inputs like those of callers, as examples are, or none. Drift of attention is measured
            with the first 400.
        version, precision, half_weights, interventions: as for `export_model`.
    Raises:
        ExportError: the card does not fit the module, or a graph's answers differ from PyTorch's; the message names
            the output or map, and the part of the card.
        BundleError: the bundle cannot be written.
    """
    _require_pytorch()
    from limelight_export.importing.module import exporting

    return exporting.export_module(
        module,
        card=card,
        examples=examples,
        references=references,
        repository=Path(repository),
        version=version,
        precision=precision,
        half_weights=half_weights,
        interventions=interventions,
    )


def _require_pytorch() -> None:
    for package in ("torch", "onnx", "onnxscript"):
        if find_spec(package) is None:
            how = installing.extra("train,serve")
            raise ModuleNotFoundError(f"an export needs {package}, which is not installed: {how}", name=package)
