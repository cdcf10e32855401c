"""The models under attack: those of the demo, a small one of every kind from the tests, and one whose maps are computed
in part (single rows, projections).
"""

import shutil
from pathlib import Path

from benchmarks.demo_calls import DEMO
from tests.kit import bundles


def write_repository(folder: Path, *, versions: int = 1) -> Path:
    """Write a repository; gives the folder. versions: of each small model, all the same."""
    import torch  # for one model: nothing else here needs it

    from limelight_export.pipeline import export_model
    from tests.kit import tiny

    torch.manual_seed(0)
    export_model(tiny.trained(tiny.LongReader(), tiny.long_reader_card()), folder)
    for model in sorted(DEMO.iterdir()):
        shutil.copytree(model, folder / model.name, dirs_exist_ok=True)
    for make in bundles.ALL:
        for version in range(1, versions + 1):
            make(folder, version=version)
    return folder
