"""Memory in which large maps were computed and halved is given back, as that of models is."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.allocated import IS_KNOWN

MAPS = """
import sys
from pathlib import Path
import numpy as np
from limelight_bundle.maps import Projected
from limelight_service.engine.attention.half import as_half
from limelight_service.engine.runtime.arena import share_arena
from limelight_service.engine.runtime.providers import Provider, runtime
from limelight_service.engine.runtime.sessions import open_sessions
from limelight_service.engine.runtime.projected_weights import some_weights
from limelight_service.platform.memory import settle_allocation
from tests.allocated import allocated
from tests.kit import bundles

def computed(tokens):
    heads, queries = np.arange(4), np.arange(tokens)
    some = np.ones((4, tokens, 8), np.float32)
    return as_half(some_weights(Projected(some, some, None), heads, queries))

def rest():
    ids = np.full((1, 3), 3)
    session.run(("logits",), {"ids": ids, "mask": ids > 0})
    session.shrink()
    return allocated().hblkhd

settle_allocation()
if sys.argv[2] == "shared":
    share_arena(runtime(), 2**30)
folder = bundles.tiny(Path(sys.argv[1]))
session = open_sessions(folder, Provider("CPUExecutionProvider", 1, 1))["main"]
assert computed(8).shape == (4, 8, 8)
before = rest()
assert computed(1500).nbytes == 4 * 1500**2 * 2
print(rest() - before)
"""


@pytest.mark.skipif(not IS_KNOWN, reason="only the GNU C library says what it has given out")
@pytest.mark.parametrize("arena", ["own", "shared"])
def test_maps_that_were_computed_and_halved_leave_nothing(arena: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAPS, str(tmp_path), arena]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert int(ran.stdout) < 2**20
