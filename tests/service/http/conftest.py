"""One server with HTTP for all tests of this folder, in both topologies."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.serving import Running, free_port, serving


@pytest.fixture(scope="package", params=[0, 2], ids=["one-process", "two-frontends"])
def running(repository: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    """A server of small models."""
    limits = {"max_instances": 64, "max_request_bytes": 2**22, "arrival_seconds": 1.0}
    with serving(repository, http_port=free_port(), frontends=request.param, **limits) as running:
        yield running
