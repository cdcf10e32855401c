"""Shared fixtures: where the data sets are, and which tests need them."""

import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.kit import clients

# On a busy machine a case can take as long as it likes. `make test` tries the same cases every time; `make search`
# and the profile `deep` try others.
settings.register_profile("search", deadline=None, print_blob=True)
settings.register_profile("deep", settings.get_profile("search"))
settings.register_profile("repeatable", settings.get_profile("search"), derandomize=True)
settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent


def data_folder() -> Path | None:
    """The folder of data sets that are never committed: LIMELIGHT_DATA, or ../shared/data where it exists."""
    folder = Path(os.environ.get("LIMELIGHT_DATA", ROOT.parent / "shared" / "data"))
    return folder if (folder / "INDEX.md").is_file() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with tests marked `slow` first; skip tests marked `data` where the data sets are absent."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)  # a process that begins a long file last works on alone
    if data_folder() is not None:
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="the data sets are not here; set LIMELIGHT_DATA"))


def pytest_collection_finish() -> None:
    """Leave what is imported by now out of every search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of data sets."""
    folder = data_folder()
    assert folder is not None, "mark the test with `data`"
    return folder


@pytest.fixture(scope="session")
def client_python(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The interpreter with a client of `tests/kit/clients.txt`, by its name."""
    return lambda name: clients.client_python(name, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session", autouse=True)
def quiet_exporters() -> None:
    """Exporters of traces give up on a collector in their own time, in the log of whichever test runs by then."""
    logging.getLogger("opentelemetry.exporter").propagate = False


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of the tests' own: nothing that they find is of earlier runs, and nothing is left behind."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["XDG_CACHE_HOME"]
    if before is not None:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    """Models of tests are small, and the cores are shared; training by command sets another number."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    """Share a folder of exports between the processes of a run."""
    if not hasattr(config, "workerinput"):
        exports = tempfile.mkdtemp(prefix="limelight-exports-")
        os.environ["LIMELIGHT_TEST_EXPORTS"] = exports  # of tests.kit.exports
        config.add_cleanup(lambda: shutil.rmtree(exports, ignore_errors=True))
