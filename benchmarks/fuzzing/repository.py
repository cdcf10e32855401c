"""The models that are attacked: those of the demo, and small ones of every kind that the tests have."""

import shutil
from pathlib import Path

from benchmarks.demo_calls import DEMO
from tests.service import bundles


def write_repository(folder: Path, *, versions: int = 1) -> Path:
    """Write a repository; gives the folder. versions: of each small model, all the same."""
    for model in sorted(DEMO.iterdir()):
        shutil.copytree(model, folder / model.name, dirs_exist_ok=True)
    for make in bundles.ALL:
        for version in range(1, versions + 1):
            make(folder, version=version)
    return folder
