import pytest

import limelight
from tests.client.server import Server


@pytest.fixture(scope="session")
def _running():
    with Server() as server:
        yield server


@pytest.fixture
def server(_running):
    """A running server that has seen no request yet."""
    _running.servicer.requests.clear()
    _running.servicer.metadata = {}
    _running.servicer.unavailable = 0
    return _running


@pytest.fixture
def client(server):
    with limelight.Client(server.target, timeout=20) as client:
        yield client
