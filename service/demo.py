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
    from limelight.v1 import model_pb2, values_pb2
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
            if own := own_command(status.model.description):
                print(f"  # one of yours: {program} {own}{target}")
    sys.stdout.flush()


def does(description: "model_pb2.ModelDescription") -> str:
    """Say what a model does, the first sentence of its summary, and what each input should be, in lines."""
    said = [f"  {description.name}: {_first_sentence(description.summary)}"]
    said += [f"    {each.name}: {each.summary}" for each in description.inputs if not each.optional]
    return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="    ") for line in said)


def commands(description: "model_pb2.ModelDescription") -> Iterator[str]:
    """Yield the command that shows a model's attention, and for one that generates, those that let it write.

    What is seen in a picture is drawn over it, which a terminal cannot.
    """
    examples = [shlex.quote(text) for text in _texts(description)] or ["--example 0"]
    yield f"attend {description.name} {examples[0]}{_drawn(description)}"
    if any(each.HasField("sequence") for each in description.results):
        yield from (f"generate {description.name} {example}" for example in examples[1:] or examples)


def own_command(description: "model_pb2.ModelDescription") -> str:
    """The command for what somebody has in a file; empty where it is as well typed."""
    values = _required(description)
    kinds = [value.WhichOneof("kind") for value in values]
    if "image" in kinds:
        given = ("PICTURE.png" if each.image else shlex.quote(each.text) for each in values)
        return f"attend {description.name} {' '.join(given)}{_drawn(description)}"
    if kinds in (["text"], ["document"]) and not _texts(description):
        return f"attend {description.name} @FILE"
    return ""


def _drawn(description: "model_pb2.ModelDescription") -> str:
    """The option that draws maps, for a model that sees pictures."""
    return f" --png {description.name}.png" if any(each.image for each in _required(description)) else ""


def _texts(description: "model_pb2.ModelDescription") -> list[str]:
    """The examples of a model that takes one text, where they are arguments: each of one line."""
    examples = (_required(description, number) for number in range(len(description.examples)))
    texts = [values[0].text or values[0].document.text for values in examples if len(values) == 1]
    return [text for text in texts if text and "\n" not in text]


def _required(description: "model_pb2.ModelDescription", example: int = 0) -> "list[values_pb2.Value]":
    """What an example has for the inputs that a model requires, in their order; nothing where there is none."""
    examples = description.examples[example : example + 1]
    return [shown.inputs[each.name] for shown in examples for each in description.inputs if not each.optional]


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].rstrip(".") + "."


def _program() -> str:
    """Name the running program so that it works as pasted from the current folder."""
    program = Path(sys.argv[0])
    try:
        return str(program.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(program)
