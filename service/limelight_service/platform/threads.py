"""Threads that live as long as the process, under names that are seen from outside it too."""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path


def background(work: Callable[[], object], name: str) -> threading.Thread:
    """Make a thread that does not keep the process alive.

    The kernel knows it by its name too (`top -H`, `perf`), cut to 15 bytes, as it does from Python 3.14 on.
    """

    def run() -> None:
        with contextlib.suppress(OSError):  # where there is no such file
            Path("/proc/thread-self/comm").write_text(name)
        work()

    return threading.Thread(target=run, name=name, daemon=True)
