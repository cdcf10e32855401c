"""Keeps the cores of a virtual machine awake while something is measured.

    python -m benchmarks.awake serving --keep      # python -m benchmarks.serving --keep, so

A core with nothing to do is given back to the host, and to wake it takes tens of microseconds of the waker's time and
of its own: a server whose threads often wait for each other pays that with every call. A process of the lowest priority
on each core has nothing to do but not to sleep, and leaves for whoever has: what the kernel's `idle=poll` does, for
those who cannot set that. Its time counts as niced, which is not counted as that of others.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

AWAKE = "LIMELIGHT_BENCHMARK_AWAKE"  # set for what runs meanwhile
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
    """Keep every core awake that this process may use."""
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
