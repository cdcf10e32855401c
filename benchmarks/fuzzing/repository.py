"""The models that are attacked: those of the demo, and small ones of every kind that the tests have."""

import shutil
from pathlib import Path

from benchmarks.demo_calls import DEMO
from tests.service import bundles


def write_repository(folder: Path) -> Path:
    """Write a repository; gives the folder."""
    for model in sorted(DEMO.iterdir()):
        shutil.copytree(model, folder / model.name, dirs_exist_ok=True)
    for make in bundles.ALL:
        make(folder)
    return folder
