"""Which commands there are, and where they come from. Nothing is imported until it is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Any

from limelight.cli import CommandError, installing

GROUP = "limelight.commands"


@dataclass(frozen=True)
class Command:
    """A command that this package knows of."""

    summary: str
    """For the list of commands, which must not import the command itself."""
    function: str = ""
    """`module:function` of this package's own commands."""
    extra: str = ""
    """The extra of the application that brings a command of another package."""


KNOWN = {
    "demo": Command("Serve small trained models and print what to try.", extra="serve"),
    "train": Command("Train a model and export it.", extra="train"),
    "export": Command("Turn a trained model into a bundle that can be served.", extra="train"),
    "serve": Command("Serve a repository of bundles.", extra="serve"),
    "token": Command("Make a token for callers of a server.", extra="serve"),
    "models": Command("List a server's models, or describe one.", "limelight.cli.models:models"),
    "health": Command("Ask whether a server is ready.", "limelight.cli.health:health"),
    "predict": Command("Ask a model for a prediction.", "limelight.cli.predict:predict"),
    "attend": Command("Show what a model looks at.", "limelight.cli.attend:attend"),
    "generate": Command("Let a model put out text, token by token.", "limelight.cli.generate:generate"),
    "bench": Command("Measure throughput and latency.", "limelight.cli.bench:bench"),
    "mechanisms": Command("List the attention mechanisms that models are built from.", extra="train"),
}


def added() -> dict[str, metadata.EntryPoint]:
    """Commands that installed packages add, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def summaries() -> dict[str, str]:
    """Every command and what it does, known ones first."""
    known = {name: command.summary for name, command in KNOWN.items()}
    others = {name: f"From {entry.value.partition('.')[0]}." for name, entry in sorted(added().items())}
    return known | {name: summary for name, summary in others.items() if name not in known}


def load(name: str) -> Callable[..., Any] | None:
    """The function of a command; None where no command has this name.

    Raises: CommandError for a command whose part is not installed, saying how to install it.
    """
    command = KNOWN.get(name, Command(""))
    if command.function:
        module, _, function = command.function.partition(":")
        own: Callable[..., Any] = getattr(import_module(module), function)
        return own
    entry = added().get(name)
    if entry is None:
        if not command.extra:
            return None
        raise CommandError(f"'{name}' is not installed: {installing.extra(command.extra)}")
    try:
        loaded: Callable[..., Any] = entry.load()
    except ModuleNotFoundError as error:
        raise missing(name, error) from error
    return loaded


def missing(name: str, error: ModuleNotFoundError) -> CommandError:
    """The error for a command that needs a package which is not installed."""
    command = KNOWN.get(name)
    if command is None:
        return CommandError(f"'{name}' needs {error.name}, which is not installed")
    what = installing.extra(command.extra) if command.extra else installing.client()
    return CommandError(f"'{name}' needs {error.name}, which is not installed: {what}")
