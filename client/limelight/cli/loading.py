"""`limelight load` and `limelight unload`."""

from typing import Annotated

import typer

from limelight.base.commands import CommandError
from limelight.cli.connection import Connection, with_connection_options

Name = Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.")]


@with_connection_options
def load(
    connection: Connection,
    name: Name,
    version: Annotated[int, typer.Option(min=0, help="Version to load; 0 for the highest in the folder.")] = 0,
) -> None:
    """Load a version of the repository's folder into a server that runs with --model-control explicit."""
    with connection.client() as client:
        status = client.load_model(name, version)
    if status.state != "ready":
        raise CommandError(f"{name} version {status.version} is {status.state}: {status.reason}")
    default = ", the default version" if status.default else ""
    print(f"{name} version {status.version} is ready{default}")


@with_connection_options
def unload(
    connection: Connection,
    name: Name,
    version: Annotated[int, typer.Option(min=0, help="Version to unload; 0 for the default version.")] = 0,
) -> None:
    """Unload a version from a server that runs with --model-control explicit, once its calls have ended."""
    with connection.client() as client:
        client.unload_model(name, version)
    print(f"{name} is unloaded" if not version else f"{name} version {version} is unloaded")
