"""Loaded models of the small bundles, and what runs them."""

import itertools
import time

import pytest

from bundle.maps import WEIGHTS
from bundle.reader import BundleFolder
from service.engine.jobs import Job, unheard
from service.engine.model import Model, open_model
from service.engine.observer import NullObserver
from service.engine.providers import Provider, choose_provider
from service.engine.types import Answer, MapKey, Query
from service.settings import Settings
from tests.service import bundles


@pytest.fixture(scope="session")
def provider() -> Provider:
    """The CPU with two lanes."""
    return choose_provider("cpu", lanes=2)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BundleFolder]:
    """The small bundles by name."""
    repository = tmp_path_factory.mktemp("repository")
    return {make.__name__: make(repository) for make in bundles.ALL}


@pytest.fixture(scope="session")
def models(folders: dict[str, BundleFolder], provider: Provider) -> dict[str, Model]:
    """The small models by name."""
    return {name: open_model(folder, provider, Settings(), NullObserver()) for name, folder in folders.items()}


def weights_of(*names: str) -> frozenset[MapKey]:
    """Ask for the weights of some maps."""
    return frozenset((name, WEIGHTS) for name in names)


def run_together(model: Model, query: Query) -> list[Answer]:
    """Answer all rows of a query in one batch, without lanes."""
    answers: dict[int, Answer] = {}
    for happened in model.runner.run(jobs_of(model, query)):
        for job, event in happened:
            assert isinstance(event, Answer), event
            answers[job.index] = event
    return [answers[index] for index in range(len(query.rows))]


def jobs_of(model: Model, query: Query, *, steps: bool = False) -> list[Job]:
    """Admit a query's rows now, without lanes."""
    call = unheard(model.seeded(query), (lambda step: step) if steps else None)
    return model.jobs(call, itertools.count(), time.monotonic_ns())
