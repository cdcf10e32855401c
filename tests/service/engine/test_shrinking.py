"""Memory that the runtime keeps of its largest batch is given back, which changes no answer."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from limelight_bundle.reader import BundleFolder
from limelight_service.engine.model import Model
from limelight_service.engine.types import Query
from tests.service.engine.conftest import run_together
from tests.service.engine.test_placement import SMALL, requested

BURST = """
import resource, sys
from pathlib import Path
import numpy as np
from limelight_service.engine.runtime.arena import share_arena
from limelight_service.engine.runtime.providers import Provider, runtime
from limelight_service.engine.runtime.sessions import open_sessions
from limelight_service.platform.memory import give_back
from tests.kit import bundles

def held():
    give_back()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

if sys.argv[2] == "shared":
    share_arena(runtime(), 2**30)
folder = bundles.tiny(Path(sys.argv[1]))
session = open_sessions(folder, Provider("CPUExecutionProvider", 1, 1))["main"]
before = held()
ids = np.full((1, 3000), 3)
session.run(("logits",), {"ids": ids, "mask": ids > 0})
burst = held()
session.shrink()
print(burst - before, held() - before)
"""


@pytest.mark.parametrize("arena", ["own", "shared"])
def test_a_burst_is_given_back(arena: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", BURST, str(tmp_path), arena]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    burst, left = map(int, result.stdout.split())
    assert burst > 2 * 3000**2 * 4  # the weights of a layer, at least
    assert left < burst / 10
    assert not result.stderr


@pytest.mark.parametrize("name", SMALL)
def test_answers_are_the_same_afterwards(
    name: str, models: dict[str, Model], folders: dict[str, BundleFolder], capfd: pytest.CaptureFixture[str]
) -> None:
    query = Query(requested(models[name], folders[name]).rows)
    before = run_together(models[name], query)
    for _ in range(2):
        models[name].shrink()
    for found, expected in zip(run_together(models[name], query), before, strict=True):
        for output, array in expected.outputs.items():
            np.testing.assert_array_equal(found.outputs[output], array)
    assert not capfd.readouterr().err
