"""`limelight health`, for those who watch over a server: images, orchestrators, scripts."""

from limelight.cli import CommandError
from limelight.cli.connection import Connection, connected


@connected
def health(connection: Connection) -> None:
    """Ask whether a server is ready; the exit status says so. Needs no token."""
    with connection.client() as client:
        if not client.ready():
            raise CommandError(f"the server at {connection.target} is not ready")
    print("ready")
