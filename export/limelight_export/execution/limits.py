"""Limits of time and memory for a graph that somebody else wrote: it may loop for ever, or make numbers without end."""

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from limelight_export.errors import ExportError

_SECONDS, _BYTES = 60.0, 4 * 2**30
# What weights may take beyond, by their bytes: ONNX Runtime reads, copies and rearranges them.
_BYTES_A_SECOND, _COPIES = 20 * 2**20, 4
_THREAD = "limited"
_ENDING = 5.0  # seconds that a run has to end after it was told to
# What ONNX Runtime says, by whom the memory was wanted.
_REFUSED = ("allocate memory", "bad_alloc", "bad allocation")

Result = TypeVar("Result")


def within_limits(work: Callable[[], Result], what: str, weights: int, stop: Callable[[], None]) -> Result:
    """Do something in a thread of its own, and give it up where it takes too long or needs too much memory.

    Args:
        what: names the work in an error.
        weights: bytes of the weights that it reads.
        stop: ends the work, if it can be ended; otherwise its thread ends with the process.
    Raises:
        ExportError: the time is over, or the memory was refused.
    """
    seconds, done = _SECONDS + weights / _BYTES_A_SECOND, []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:  # raised again below
            failed.append(error)

    thread = threading.Thread(target=run, name=_THREAD, daemon=True)
    with _limited_memory(_BYTES + _COPIES * weights):
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            stop()
            thread.join(_ENDING)
            raise ExportError(f"{what} takes longer than the {seconds:.0f} s that it may")
    for error in failed:
        if isinstance(error, MemoryError) or any(words in str(error) for words in _REFUSED):
            memory = (_BYTES + _COPIES * weights) / 2**30
            raise ExportError(f"{what} takes more than the {memory:.1f} GiB of memory that it may") from error
        raise error
    return done[0]


@contextmanager
def _limited_memory(size: int) -> Iterator[None]:
    """Refuse this process more memory than so many bytes beyond what it has, until the context ends."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (_held() + size, *before) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _held() -> int:
    """Return the bytes that the process has allocated, as the limit counts them; 0 where the system does not tell."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmData:")).split()[1]) * 1024
    return 0
