"""One repository of small models, and a server for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import bundles
from tests.service.serving import Running, serving


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one model of each shape."""
    folder = tmp_path_factory.mktemp("repository")
    for make in bundles.ALL:
        make(folder)
    return folder


@pytest.fixture(scope="module")
def running(repository: Path) -> Iterator[Running]:
    """A server for a module's tests."""
    with serving(repository, max_instances=64) as running:
        yield running
