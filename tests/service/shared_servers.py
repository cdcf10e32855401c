"""Servers for all tests of a folder that change nothing of them: its conftest.py imports these fixtures.

They end with their folder: tests of processes and of threads count those of this process.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.serving import Running, free_port, serving

LIMITS: dict[str, Any] = {"max_instances": 64, "max_request_bytes": 2**22}


# One fixture with parameters would start them again in each module.
@pytest.fixture(scope="package")
def one_process(repository: Path) -> Iterator[Running]:
    """A server for all tests that change nothing of it."""
    with serving(repository, http_port=free_port(), metrics_port=free_port(), **LIMITS) as running:
        yield running


@pytest.fixture(scope="package")
def two_frontends(repository: Path) -> Iterator[Running]:
    """The same, of several processes."""
    with serving(repository, http_port=free_port(), metrics_port=free_port(), frontends=2, **LIMITS) as running:
        yield running


@pytest.fixture(scope="module", params=["one-process", "two-frontends"])
def running(request: pytest.FixtureRequest) -> Running:
    """A server that no test changes, in both topologies."""
    found: Running = request.getfixturevalue(request.param.replace("-", "_"))
    return found
