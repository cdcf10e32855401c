"""The commands `limelight import` and `limelight inspect`. Libraries are imported when an import begins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bundle.errors import LimelightError
from limelight.cli import CommandError, installing

app = typer.Typer()


@app.callback()
def _group() -> None:
    """Make a bundle of a model that was made elsewhere."""


@app.command()
def onnx(
    file: Annotated[Path, typer.Argument(help="ONNX file.")],
    card: Annotated[Path, typer.Option(help="Card in TOML; `limelight inspect --write-card` writes a first one.")],
    repository: Annotated[
        Path, typer.Option(help="Repository folder; the bundle is written to REPOSITORY/<model>/<version>.")
    ],
    samples: Annotated[
        Path | None, typer.Option(help="Inputs in an .npz file, with or without outputs that they must give.")
    ] = None,
    expose: Annotated[
        list[str] | None,
        typer.Option(help="Softmax node or value inside the file whose map becomes an output; * stands for any part."),
    ] = None,
    version: Annotated[int, typer.Option(min=0, help="Version to write; 0 for the next one.")] = 0,
) -> None:
    """Make a bundle of an ONNX file, and verify that its answers equal the file's."""
    with _one_line_errors("import onnx"):
        from export.importing.onnx_file.importing import OnnxImport, import_onnx

        folder = import_onnx(OnnxImport(file, card, samples, expose or ()), repository, version=version)
    from export.command import parity_line

    typer.echo(f"{folder.path}: answers equal {file.name}'s")
    for each in folder.bundle.parity:
        typer.echo(f"  {parity_line(each)}")
    if folder.bundle.single_rows and not folder.bundle.HasField("generation"):
        typer.echo("  rows run one at a time: the card states no mask or no batch, or the file takes one row")


def inspect(
    file: Annotated[Path, typer.Argument(help="ONNX file.")],
    write_card: Annotated[Path | None, typer.Option(help="Write a first card to this file.")] = None,
) -> None:
    """Show the inputs and outputs of an ONNX file, and what of it looks like attention."""
    with _one_line_errors("inspect"):
        from export.importing.onnx_file.card_file import shape_of
        from export.importing.onnx_file.inspection import inspect_onnx

        found = inspect_onnx(file)
        if write_card is not None:
            if write_card.exists():
                raise CommandError(f"{write_card} exists already")
            write_card.write_text(found.card, encoding="utf-8")
    typer.echo(f"{file.name}: operator set {found.file.opset}, {len(found.file.model.graph.node)} nodes")
    for name, own in found.file.inputs.items():
        typer.echo(f"input {name}: {shape_of(own)}")
    for name, axes in found.outputs.items():
        typer.echo(f"output {name}: {found.file.outputs[name].dtype}[{', '.join(map(str, axes))}]")
    for each in found.weights:
        what = "inside, looks" if each.is_inner else "looks"
        unclear = "" if each.map else "; which label sets its axes are is not clear: name it in the card"
        typer.echo(f"{each.name}: {what} like attention, rows sum to 1: [{', '.join(map(str, each.axes))}]{unclear}")
    for name in found.hidden:
        typer.echo(f"{name}: a Softmax inside, not like attention")
    if found.problem:
        typer.echo(f"not run on random inputs: {found.problem}")
    if write_card is not None:
        typer.echo(f"wrote {write_card}")


@contextmanager
def _one_line_errors(command: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(
            f"`limelight {command}` needs {error.name}, which is not installed: {installing.extra('serve')}"
        ) from error
    except LimelightError as error:
        raise CommandError(error.message) from error
    except OSError as error:
        raise CommandError(f"{error.filename or 'the system'}: {error.strerror or error}") from error
