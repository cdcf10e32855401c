"""The command `limelight export`. It imports PyTorch only when the export begins, so that `--help` is fast."""

from pathlib import Path
from typing import Annotated

import typer

from limelight.base import installing
from limelight.base.commands import CommandError
from limelight_bundle.errors import LimelightError
from limelight_bundle.v1 import bundle_pb2
from limelight_export.next_commands import next_commands
from limelight_export.precision import Precision


def export(
    run: Annotated[Path, typer.Argument(help="Run folder written by `limelight train`.")],
    repository: Annotated[
        Path, typer.Option(help="Repository folder; the bundle is written to REPOSITORY/<model>/<version>.")
    ],
    version: Annotated[int, typer.Option(min=0, help="Version to write; 0 for the next one.")] = 0,
    precision: Annotated[
        Precision, typer.Option(help="Precision of computation: float16 for GPUs, int8 for CPUs.")
    ] = Precision.FLOAT32,
    half_weights: Annotated[
        bool,
        typer.Option("--half-weights", help="Store weights as float16, which halves the files; compute in float32."),
    ] = False,
    no_interventions: Annotated[
        bool,
        typer.Option("--no-interventions", help="Leave out the graph whose attention requests can change."),
    ] = False,
) -> None:
    """Export a trained model to a bundle, and verify that its answers equal PyTorch's."""
    try:
        import onnx_ir  # noqa: F401
        import onnxscript  # noqa: F401
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise CommandError(
            f"`limelight export` needs {error.name}, which is not installed: {installing.extra('train,serve')}"
        ) from error

    from limelight_export import export_run

    try:
        folder = export_run(
            run,
            repository,
            version=version,
            precision=precision,
            half_weights=half_weights,
            interventions=not no_interventions,
        )
    except LimelightError as error:
        raise CommandError(error.message) from error
    except OSError as error:
        raise CommandError(f"{error.filename or repository}: {error.strerror or error}") from error
    within = "" if precision is Precision.FLOAT32 else f"within the tolerances fitted for {precision}"
    typer.echo(f"{folder.path}: answers equal PyTorch's{within}")
    for each in folder.bundle.parity:
        typer.echo(f"  {parity_line(each)}")
    for metric in folder.bundle.description.metrics:
        if metric.HasField("float32_value"):
            typer.echo(f"  {metric.split} {metric.name}: {metric.value:.4f} (float32: {metric.float32_value:.4f})")
    for line in next_commands(repository, folder.bundle):
        typer.echo(line)


def parity_line(parity: bundle_pb2.Parity) -> str:
    """Format the largest difference between a graph's output and PyTorch's."""
    relative = f"{parity.relative:.1e} of the largest value"
    return f"{parity.name}: largest difference {parity.absolute:.1e} ({relative}), {parity.cases} cases"
