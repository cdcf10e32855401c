"""A real server of small models, and a client of it."""

from collections.abc import Iterator

import pytest

import limelight
from tests.client.served import small_models
from tests.kit.forwarder import Forwarder


@pytest.fixture(scope="package")  # other tests of the process count threads, and look at the collector
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forwarder]:
    with small_models(tmp_path_factory.mktemp("repository")) as forwarder:
        yield forwarder


@pytest.fixture
def server(_running: Forwarder) -> Forwarder:
    """A running server to which nothing was sent yet."""
    _running.forget()
    return _running


@pytest.fixture
def client(server: Forwarder) -> Iterator[limelight.Client]:
    with limelight.Client(server.target, timeout=20) as client:
        yield client
