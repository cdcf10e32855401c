"""`limelight export`. Light to import: PyTorch is loaded when the export begins."""

from pathlib import Path
from typing import Annotated

import typer

from bundle.errors import LimelightError
from bundle.v1 import bundle_pb2
from export.conversion.precision import Precision
from limelight.cli import CommandError, installing


def export(
    run: Annotated[Path, typer.Argument(help="The run folder that `limelight train` left.")],
    repository: Annotated[Path, typer.Option(help="Folder of bundles; the next version of the model goes there.")],
    version: Annotated[int, typer.Option(min=0, help="The version; 0 for the one after the highest there.")] = 0,
    precision: Annotated[
        Precision, typer.Option(help="Numbers to compute in: float16 is for GPUs, int8 for CPUs.")
    ] = Precision.FLOAT32,
    half_weights: Annotated[
        bool, typer.Option("--half-weights", help="Store weights as float16, in half the room; compute in float32.")
    ] = False,
) -> None:
    """Export a trained model to a bundle, and prove that it answers as PyTorch does."""
    try:
        import onnx_ir  # noqa: F401
        import onnxscript  # noqa: F401
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise CommandError(
            f"an export needs {error.name}, which is not installed: {installing.extra('train,serve')}"
        ) from error

    from export import export_run

    try:
        folder = export_run(run, repository, version=version, precision=precision, half_weights=half_weights)
    except LimelightError as error:
        raise CommandError(error.message) from error
    except OSError as error:
        raise CommandError(f"{error.filename or repository}: {error.strerror or error}") from error
    within = "" if precision is Precision.FLOAT32 else f", as far as {precision} can"
    typer.echo(f"{folder.path}: answers as PyTorch does{within}")
    for each in folder.bundle.parity:
        typer.echo(f"  {parity_line(each)}")
    for metric in folder.bundle.description.metrics:
        if metric.HasField("float32_value"):
            typer.echo(f"  {metric.split} {metric.name}: {metric.value:.4f} (float32: {metric.float32_value:.4f})")


def parity_line(parity: bundle_pb2.Parity) -> str:
    """Say how far an output was from PyTorch's."""
    relative = f"{parity.relative:.1e} of the largest"
    return f"{parity.name}: at most {parity.absolute:.1e} apart ({relative}), {parity.cases} cases"
