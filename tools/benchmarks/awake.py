"""Keeps the cores of a virtual machine awake during a measurement.

    python -m benchmarks.awake serving --keep      # runs python -m benchmarks.serving --keep

A virtual machine gives an idle core back to its host; waking the core takes tens of microseconds, which a server whose
threads wait for each other pays with every call. A process of the lowest priority on each core keeps it busy and yields
to every other process, as the kernel's `idle=poll` does. Its time counts as niced, and not as that of other programs.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

AWAKE = "LIMELIGHT_BENCHMARK_AWAKE"  # set in the environment of the measurement
_SPIN = """
import os
from contextlib import suppress
from pathlib import Path
parent = os.getppid()
os.nice(19)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
with suppress(OSError):  # the kernel shares cores among sessions first, and among a session's processes then
    Path("/proc/self/autogroup").write_text("19")
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@contextmanager
def awake() -> Iterator[None]:
    """Keep awake the cores that this process may use."""
    command = [sys.executable, "-c", _SPIN]
    running = [subprocess.Popen(command, start_new_session=True) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def main() -> None:
    """Run a benchmark."""
    name, *arguments = sys.argv[1:]
    with awake():
        command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
        sys.exit(subprocess.run(command, env={**os.environ, AWAKE: "1"}).returncode)


if __name__ == "__main__":
    main()
