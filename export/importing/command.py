"""The command `limelight import`: models of other libraries. PyTorch is imported only when an import begins."""

from pathlib import Path
from typing import Annotated

import typer

from bundle.errors import LimelightError
from export.command import parity_line
from export.conversion.precision import Precision
from limelight.cli import CommandError, installing

importing = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@importing.callback()
def _importing() -> None:
    """Import a model of another library to a verified bundle."""


@importing.command("hf")
def import_hf(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with config.json and model.safetensors.")],
    repository: Annotated[
        Path, typer.Option(help="Repository folder; the bundle is written to REPOSITORY/<model>/<version>.")
    ],
    name: Annotated[str, typer.Option(help="Name of the model; the folder's name unless given.")] = "",
    task: Annotated[
        str,
        typer.Option(
            help="Task, where it is another than the checkpoint states: classification, cross-encoder, "
            "token-classification, question-answering, masked-words, embedding."
        ),
    ] = "",
    pooling: Annotated[
        str, typer.Option(help="How tokens' vectors become one, for an embedding without modules.json: mean, cls, max.")
    ] = "",
    example: Annotated[
        list[str] | None, typer.Option(help="Text for the server's self-test; a pair's texts are separated by a tab.")
    ] = None,
    max_tokens: Annotated[
        int, typer.Option(min=0, help="Most tokens of an input; the model's own limit unless given.")
    ] = 0,
    version: Annotated[int, typer.Option(min=0, help="Version to write; 0 for the next one.")] = 0,
    precision: Annotated[
        Precision, typer.Option(help="Precision of computation: float16 for GPUs, int8 for CPUs.")
    ] = Precision.FLOAT32,
    half_weights: Annotated[
        bool,
        typer.Option("--half-weights", help="Store weights as float16, which halves the files; compute in float32."),
    ] = False,
) -> None:
    """Import a Hugging Face checkpoint, and verify that its answers and maps equal those of transformers."""
    _require("transformers", "torch", "onnx_ir", "onnxscript", "safetensors")
    from export.importing.huggingface.importer import import_checkpoint
    from export.importing.huggingface.tasks.task import ImportOptions

    options = ImportOptions(name=name, pooling=pooling, examples=tuple(example or ()), max_tokens=max_tokens)
    try:
        written = import_checkpoint(
            folder,
            repository,
            task=task,
            options=options,
            version=version,
            precision=precision,
            half_weights=half_weights,
        )
    except LimelightError as error:
        raise CommandError(error.message) from error
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror or error}") from error
    within = "" if precision is Precision.FLOAT32 else f", within the tolerances fitted for {precision}"
    typer.echo(f"{written.path}: answers and maps equal transformers' eager attention{within}")
    for each in written.bundle.parity:
        typer.echo(f"  {parity_line(each)}")


@importing.command("convert-weights")
def convert(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with config.json and pickled weights.")],
    out: Annotated[Path, typer.Option(help="Folder to write: the same checkpoint with model.safetensors.")],
) -> None:
    """Convert pickled weights to safetensors; nothing but tensors is read from the pickle."""
    _require("torch", "safetensors")
    from export.importing.huggingface.convert_weights import convert_weights

    try:
        typer.echo(str(convert_weights(folder, out)))
    except LimelightError as error:
        raise CommandError(error.message) from error
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {error.strerror or error}") from error


def _require(*packages: str) -> None:
    """Check that packages are installed, without importing those that take seconds. Raises CommandError."""
    from importlib.util import find_spec

    for package in packages:
        if find_spec(package) is None:
            raise CommandError(
                f"`limelight import` needs {package}, which is not installed: {installing.extra('hf,serve')}"
            )
