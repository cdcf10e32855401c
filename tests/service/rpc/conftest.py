"""One repository of small models, and a server for the tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.engine.model import open_model
from service.engine.observer import NullObserver
from service.engine.providers import choose_provider
from service.rpc.view import ModelView
from service.settings import Settings
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
    with serving(repository, max_instances=64, apart=True) as running:
        yield running


@pytest.fixture(scope="session")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModelView]:
    """Models of one pass and one that generates."""
    folder, provider = tmp_path_factory.mktemp("repository"), choose_provider("cpu", lanes=1)
    makers = (bundles.tiny, bundles.paper, bundles.echo)
    return {each.__name__: ModelView(open_model(each(folder), provider, Settings(), NullObserver())) for each in makers}
