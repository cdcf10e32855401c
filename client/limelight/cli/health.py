"""`limelight health`, for container health checks, orchestrators and scripts."""

from limelight.base.commands import CommandError
from limelight.cli.connection import Connection, with_connection_options


@with_connection_options
def health(connection: Connection) -> None:
    """Check whether a server is ready, and report it by the exit status. Needs no token."""
    with connection.client() as client:
        if not client.ready():
            raise CommandError(f"the server at {connection.target} is not ready")
    print("ready")
