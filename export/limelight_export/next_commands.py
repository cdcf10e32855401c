"""Commands that are printed after a bundle is written."""

from collections.abc import Iterator
from pathlib import Path

from limelight.base.program import command_line
from limelight_bundle.v1 import bundle_pb2


def next_commands(repository: Path, bundle: bundle_pb2.Bundle) -> Iterator[str]:
    """Yield lines with the commands that serve a bundle and show its attention."""
    description = bundle.description
    then = ("attend", description.name, "--example", 0) if description.examples else ("models", description.name)
    yield f"serve it with: {command_line('serve', '--repository', repository)}"
    yield f"then, in another terminal: {command_line(*then)}"
    yield "(with another server running: --port 50052 --metrics-port 9465 to serve, --target localhost:50052 to attend)"
