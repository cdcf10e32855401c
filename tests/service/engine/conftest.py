"""Loaded models of the small bundles, and what runs them."""

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from limelight_bundle.maps import WEIGHTS, MapPart
from limelight_bundle.reader import BundleFolder
from limelight_bundle.rows import Row
from limelight_service.engine.jobs import Job, RowEvent, detached_call
from limelight_service.engine.model import Model
from limelight_service.engine.opening import open_model
from limelight_service.engine.runtime.providers import Provider, choose_provider
from limelight_service.engine.types import Answer, GenerationSettings, MapKey, Query, Timing
from limelight_service.observability.observer import NullObserver
from limelight_service.settings import Settings
from tests.kit import bundles

EMPTY = Answer({}, {}, {}, "fake", 1, Timing(0, 0))


@pytest.fixture(scope="session")
def provider() -> Provider:
    """The CPU with two workers."""
    return choose_provider("cpu", workers=2)


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BundleFolder]:
    """The small bundles by name."""
    repository = tmp_path_factory.mktemp("repository")
    return {make.__name__: make(repository) for make in bundles.ALL}


@pytest.fixture(scope="session")
def models(folders: dict[str, BundleFolder], provider: Provider) -> dict[str, Model]:
    """The small models by name."""
    return {name: open_model(folder, provider, Settings(), NullObserver()) for name, folder in folders.items()}


@dataclass
class FakeRunner:
    """Holds a worker until it is told to go on, and for some seconds; fails on rows that hold the token 9."""

    seconds: float = 0.0
    failure: BaseException = field(default_factory=lambda: RuntimeError("/secret/path: kernel failed"))
    gate: threading.Event = field(default_factory=threading.Event)
    ran: list[list[int]] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def group(self, row: Row, maps: frozenset[MapKey], parts: Mapping[MapKey, MapPart]) -> str:
        """All rows fit together."""
        return ""

    def samples(self, row: Row, generation: GenerationSettings) -> bool:
        """Nothing is generated."""
        return False

    def run(self, jobs: Sequence[Job], wide: bool = False) -> Iterator[list[RowEvent]]:
        """Answer once the gate is open."""
        self.ran.append([int(job.row.tensors["ids"][0]) for job in jobs])
        self.arrived.release()
        assert self.gate.wait(20)
        time.sleep(self.seconds)
        if 9 in self.ran[-1]:
            raise self.failure
        yield [(job, EMPTY) for job in jobs]


@pytest.fixture
def runner() -> Iterator[FakeRunner]:
    """A runner whose gate opens at the end, so that no worker stays behind."""
    runner = FakeRunner()
    yield runner
    runner.gate.set()


@pytest.fixture
def fake(models: dict[str, Model], runner: FakeRunner) -> Model:
    """A model that runs on the fake."""
    return replace(models["tiny"], runner=runner)


def weights_of(*names: str) -> frozenset[MapKey]:
    """Ask for the weights of some maps."""
    return frozenset((name, WEIGHTS) for name in names)


def run_together(model: Model, query: Query) -> list[Answer]:
    """Answer all rows of a query in one batch, without workers."""
    answers: dict[int, Answer] = {}
    for happened in model.runner.run(jobs_of(model, query)):
        for job, event in happened:
            assert isinstance(event, Answer), event
            answers[job.index] = event
    return [answers[index] for index in range(len(query.rows))]


def jobs_of(model: Model, query: Query, *, steps: bool = False) -> list[Job]:
    """Admit a query's rows now, without workers."""
    call = detached_call(model.seeded(query), (lambda step: step) if steps else None)
    return model.jobs(call, itertools.count(), time.monotonic_ns())
