"""Servers for all tests of a folder that change nothing of them: its conftest.py imports these fixtures."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.serving import Running, serving


# One fixture with parameters would start them again in each module.
@pytest.fixture(scope="package")
def one_process(repository: Path) -> Iterator[Running]:
    with serving(repository, max_instances=64) as running:
        yield running


@pytest.fixture(scope="package")
def two_frontends(repository: Path) -> Iterator[Running]:
    with serving(repository, max_instances=64, frontends=2) as running:
        yield running


@pytest.fixture(scope="module", params=["one-process", "two-frontends"])
def running(request: pytest.FixtureRequest) -> Running:
    """A server that no test changes, in both topologies."""
    found: Running = request.getfixturevalue(request.param.replace("-", "_"))
    return found
