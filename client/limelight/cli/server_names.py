"""Names of a server's models, inputs and maps, for completion in a shell."""

import re
from collections.abc import Iterable
from contextlib import suppress

import typer

from limelight.cli import completion
from limelight.cli.connection import connection_of
from limelight.client import Client

# A person waits for a completion no longer than this many seconds.
_PATIENCE = 1.0
# The shell evaluates what it is offered, and the server chooses it.
_PLAIN = re.compile(r"\w[\w.-]*=?", re.ASCII)


def models(context: typer.Context) -> list[str]:
    """Return the names of the server's models."""
    with _silent(), _client(context) as client:
        return plain({each.name for each in client.models()})
    return []


def inputs(context: typer.Context) -> list[str]:
    """Return `NAME=` for each input of the model that the command line names."""
    with _silent(), _client(context) as client:
        return plain(f"{each.name}=" for each in client.model(_model(context)).inputs)
    return []


def maps(context: typer.Context) -> list[str]:
    """Return the maps of the model that the command line names."""
    with _silent(), _client(context) as client:
        return plain(each.name for each in client.model(_model(context)).maps)
    return []


def plain(names: Iterable[str]) -> list[str]:
    """Return the names that mean nothing to a shell, in order."""
    return sorted(each for each in names if _PLAIN.fullmatch(each))


def _model(context: typer.Context) -> str:
    # Where the last option lacks its value, click leaves out the arguments before it.
    named = [word for word in completion.words() or () if not word.startswith("-")]
    return str(context.params.get("model") or named[1])


def _silent() -> suppress:
    # A message would be printed into the line that a person is typing.
    return suppress(Exception)


def _client(context: typer.Context) -> Client:
    connection = connection_of(context.params)
    return Client(connection.target, timeout=_PATIENCE, attempts=1, **connection.security)
