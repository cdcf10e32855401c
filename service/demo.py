"""`limelight demo`: serves the small trained models of the project, and prints commands that work as pasted."""

import shlex
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from limelight.cli import CommandError
from service.command import run
from service.configuration import SettingsError, load_settings

if TYPE_CHECKING:
    from limelight.v1 import model_pb2
    from service.server import Server

DEMO = Path(__file__).resolve().parent.parent / "deploy" / "demo"
_WIDTH = 100
DEFAULT_TARGET = "127.0.0.1:50051"


def demo(
    repository: Annotated[Path, typer.Option(help="Folder of bundles to serve.", metavar="DIR")] = DEMO,
    port: Annotated[int, typer.Option(help="Port for gRPC; 0 for any free one.")] = 50051,
    metrics_port: Annotated[int, typer.Option(help="Port for metrics; 0 for none.")] = 9464,
) -> None:
    """Serve small trained models and print what to try."""
    if not repository.is_dir():
        raise CommandError(
            "the demo models are not here: run it in a checkout of the project, or give --repository DIR"
        )
    flags = {"repository": str(repository), "port": port, "metrics_port": metrics_port}
    flags |= {"workers": 1, "log_level": "warning"}
    try:
        settings = load_settings(flags)
    except SettingsError as error:
        raise CommandError(error.message, status=2) from error
    run(settings, print_commands)


def print_commands(server: "Server") -> None:
    """Print what to try with each model that loaded, made of its own examples."""
    target = "" if server.address == DEFAULT_TARGET else f" --target {server.address}"
    print(f"Serving on {server.address}" + (f", metrics on {server.metrics_url}" if server.metrics_url else ""))
    print("Try, in another terminal (Ctrl-C here to stop):\n")
    program = _program()
    print(f"  {program} models{target}")
    for status in server.repository.statuses():
        if status.model is not None and status.is_default:
            print(f"\n{does(status.model.description)}")
            for command in commands(status.model.description):
                print(f"  {program} {command}{target}")
    sys.stdout.flush()


def does(description: "model_pb2.ModelDescription") -> str:
    """Say what a model does: the first sentence of its summary, in lines."""
    said = description.summary.partition(". ")[0].rstrip(".")
    return textwrap.fill(f"{description.name}: {said}.", _WIDTH, initial_indent="  ", subsequent_indent="  ")


def commands(description: "model_pb2.ModelDescription") -> Iterator[str]:
    """Yield the command that shows a model's attention, and for one that generates, the one that lets it write."""
    generates = any(each.HasField("sequence") for each in description.results)
    verbs = ["attend", *(["generate"] if generates else [])]
    for verb in verbs:
        yield f"{verb} {description.name} {_example(description)}"


def _example(description: "model_pb2.ModelDescription") -> str:
    """Write the first example as an argument; one that is no text is sent by its number."""
    required = [each.name for each in description.inputs if not each.optional]
    if len(required) == 1 and description.examples:
        value = description.examples[0].inputs[required[0]]
        text = value.text if value.HasField("text") else value.document.text
        if text and "\n" not in text:
            return shlex.quote(text)
    return "--example 0"


def _program() -> str:
    """Name the running program so that it works as pasted from the current folder."""
    program = Path(sys.argv[0])
    try:
        return str(program.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(program)
