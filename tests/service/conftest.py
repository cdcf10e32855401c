"""One repository of small models, and these models without a server."""

from pathlib import Path

import pytest

from limelight_bundle.preprocess import Bounds
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import choose_provider
from limelight_service.frontend.models import Model
from limelight_service.hosting.hosted import HostedModel
from limelight_service.hosting.hosted import hosted as host
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.kit import bundles


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one model of each shape."""
    folder = tmp_path_factory.mktemp("repository")
    for make in bundles.ALL:
        make(folder)
    return folder


@pytest.fixture(scope="session")
def hosted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, HostedModel]:
    """Models of one pass and one that generates, as an engine has them."""
    folder, provider = tmp_path_factory.mktemp("repository"), choose_provider("cpu", workers=1)
    found = {}
    for make in (bundles.tiny, bundles.paper, bundles.echo):
        bundle = make(folder)
        found[make.__name__] = host(open_model(bundle, provider, Settings(), NullObserver()), bundle)
    return found


@pytest.fixture(scope="session")
def models(hosted: dict[str, HostedModel]) -> dict[str, Model]:
    """The same models as a frontend knows them."""
    return {name: Model(each.served, Bounds()) for name, each in hosted.items()}
