"""Shared fixtures: where the data sets are, and which tests need them."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def data_folder() -> Path | None:
    """The folder of data sets that are never committed: LIMELIGHT_DATA, or ../shared/data where it exists."""
    folder = Path(os.environ.get("LIMELIGHT_DATA", ROOT.parent / "shared" / "data"))
    return folder if (folder / "INDEX.md").is_file() else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `data` where the data sets are absent."""
    if data_folder() is not None:
        return
    for item in items:
        if item.get_closest_marker("data"):
            item.add_marker(pytest.mark.skip(reason="the data sets are not here; set LIMELIGHT_DATA"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of data sets."""
    folder = data_folder()
    assert folder is not None, "mark the test with `data`"
    return folder
