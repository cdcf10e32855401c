"""Lookup of commands. Modules are imported only when needed."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

from limelight.base import installing
from limelight.base.commands import CommandError

GROUP = "limelight.commands"


@dataclass(frozen=True)
class Command:
    """A command that this package knows."""

    summary: str
    """Summary for the list of commands, which does not import the command."""
    function: str = ""
    """`module:function` of a command of this package."""
    extra: str = ""
    """Extra that installs a command: of the application, or of the client where the command is of this package."""


KNOWN = {
    "demo": Command("Serve small trained models and print commands to try.", extra="serve"),
    "train": Command("Train a model and export it.", extra="train"),
    "export": Command("Export a trained model to a bundle.", extra="train"),
    "import": Command("Make a bundle of a model that was made elsewhere.", extra="serve"),
    "inspect": Command("Show what an ONNX file takes and returns, and its attention.", extra="serve"),
    "serve": Command("Serve a repository of bundles.", extra="serve"),
    "token": Command("Create a token for callers of a server.", extra="serve"),
    "models": Command("List a server's models, or describe one.", "limelight.cli.models:models"),
    "load": Command("Load a model into a running server.", "limelight.cli.loading:load"),
    "unload": Command("Unload a model from a running server.", "limelight.cli.loading:unload"),
    "health": Command("Check whether a server is ready.", "limelight.cli.health:health"),
    "predict": Command("Show a model's prediction.", "limelight.cli.predict:predict"),
    "attend": Command("Show a model's attention.", "limelight.cli.attend:attend"),
    "explain": Command("Show what an answer depends on.", "limelight.cli.explain:explain"),
    "replay": Command("Ask again for a recorded explanation.", "limelight.cli.explain:replay"),
    "generate": Command("Generate text, token by token.", "limelight.cli.generate:generate"),
    "tokenize": Command("Show the tokens that a model reads.", "limelight.cli.tokenize:tokenize"),
    "view": Command("Open a page that shows attention.", "limelight.cli.view:view"),
    "headvis": Command("Write a model's heads for HeadVis, a viewer.", "limelight.cli.headvis:headvis"),
    "bench": Command("Measure throughput and latency.", "limelight.cli.bench.command:bench"),
    "evaluate": Command(
        "Measure what a model's attention is worth.", "limelight.cli.evaluate.command:evaluate", extra="evaluate"
    ),
    "completion": Command("Print the code for completion in a shell.", "limelight.cli.completion:completion"),
    "mechanisms": Command("List the attention mechanisms of the models.", extra="train"),
}


def installed_commands() -> dict[str, metadata.EntryPoint]:
    """Return the commands that installed packages add, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def summaries() -> dict[str, str]:
    """Return the summary of every command, known commands first."""
    known = {name: command.summary for name, command in KNOWN.items()}
    others = {name: f"From {entry.value.partition('.')[0]}." for name, entry in sorted(installed_commands().items())}
    return known | {name: summary for name, summary in others.items() if name not in known}


def load(name: str) -> Callable[..., Any] | None:
    """Return the function of a command; None for an unknown name.

    Raises:
        CommandError: the command's package is not installed; the message states how to install it.
    """
    command = KNOWN.get(name, Command(""))
    if command.function:
        module, _, function = command.function.partition(":")
        own: Callable[..., Any] = getattr(import_module(module), function)
        return own
    entry = installed_commands().get(name)
    if entry is None:
        if not command.extra:
            return None
        raise CommandError(f"'{name}' is not installed: {installing.extra(command.extra)}")
    try:
        loaded: Callable[..., Any] = entry.load()
    except ModuleNotFoundError as error:
        raise missing_package_error(name, error) from error
    return loaded


def missing_package_error(name: str, error: ModuleNotFoundError) -> CommandError:
    """Return the error for a command whose package is not installed."""
    command = KNOWN.get(name)
    if command is None:
        return CommandError(f"'{name}' needs {error.name}, which is not installed")
    what = installing.client(command.extra or "cli") if command.function else installing.extra(command.extra)
    return CommandError(f"'{name}' needs {error.name}, which is not installed: {what}")
