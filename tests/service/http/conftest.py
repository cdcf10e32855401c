"""Servers with HTTP for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.serving import Running, free_port, serving
from tests.service.shared_servers import running

__all__ = ["one_process", "running", "two_frontends"]

LIMITS: dict[str, Any] = {"max_instances": 64, "max_request_bytes": 2**22, "arrival_seconds": 1.0}


@pytest.fixture(scope="package")
def one_process(repository: Path) -> Iterator[Running]:
    with serving(repository, http_port=free_port(), **LIMITS) as running:
        yield running


@pytest.fixture(scope="package")
def two_frontends(repository: Path) -> Iterator[Running]:
    with serving(repository, http_port=free_port(), frontends=2, **LIMITS) as running:
        yield running
