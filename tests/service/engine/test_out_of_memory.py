"""Memory that runs out, for real: in a process of its own, whose address space is bounded."""

import subprocess
import sys
from pathlib import Path

import pytest

from limelight_service.engine.out_of_memory import is_out_of_memory

SESSION = """
import resource, sys
from pathlib import Path
import numpy as np
from limelight_service.engine.runtime.providers import Provider
from limelight_service.engine.runtime.sessions import open_sessions
from limelight_service.errors import MemoryShortError
from tests.kit import bundles

folder = bundles.tiny(Path(sys.argv[1]))
device = ("cpu", 0) if sys.argv[2] == "device" else None
session = open_sessions(folder, Provider("CPUExecutionProvider", 1, 1, device=device))["main"]

def run(length):
    ids = np.full((1, length), 3)
    return session.run(("logits",), {"ids": ids, "mask": ids > 0})[0]

expected = run(4)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29,) * 2)
for _ in range(2):
    try:
        run(20_000)
    except MemoryShortError as error:
        assert "20" not in error.message, error.message
    else:
        raise SystemExit("there was memory")
    assert (run(4) == expected).all()
try:
    np.zeros(2**31, np.uint8) + np.uint8(1)
except MemoryError:
    print("all done")
"""


@pytest.mark.parametrize("where", ["arrays", "device"])
def test_a_run_that_is_too_much_is_told_so_and_the_next_one_answers(where: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SESSION, str(tmp_path), where]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.stdout == "all done\n", result.stderr


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Failed to allocate memory for requested buffer of size 939524096", True),
        ("Available memory of 1024 is smaller than requested bytes of 4096", True),
        ("Non-zero status code returned while running MatMul node. Status Message: std::bad_alloc", True),
        ("CUDA failure 2: out of memory ; GPU=0 ; expr=cudaMalloc((void**)&p, size);", True),
        ("CUDNN failure 4: CUDNN_STATUS_ALLOC_FAILED", True),
        ("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED", True),
        ("indices element out of data bounds, idx=99 must be within the inclusive range [-14,13]", False),
    ],
)
def test_what_the_runtime_says_tells_whether_memory_ran_out(said: str, expected: bool) -> None:
    assert is_out_of_memory(RuntimeError(said)) is expected
