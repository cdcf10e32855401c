"""The topologies that servers are attacked in."""

import pytest


@pytest.fixture(scope="module", params=[0, 1], ids=["one-process", "one-frontend"])
def frontends(request: pytest.FixtureRequest) -> int:
    """The number of frontends."""
    return int(request.param)
