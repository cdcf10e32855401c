"""Processor time and memory of other processes, from /proc."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor time that processes have used, of all their threads, and of their children that have ended; those of
    them that have ended themselves count only so.
    """
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        total += sum(map(int, fields[11:15]))
    return total / _TICK


def machine_seconds() -> float:
    """Processor time of the whole machine, stolen time included and niced time not."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, _, system, _, _, irq, softirq, steal = map(int, fields)
    return (user + system + irq + softirq + steal) / _TICK


def family(pid: int) -> list[int]:
    """The process and all that descend from it."""
    found = [pid]
    with suppress(FileNotFoundError):  # of a process that ends meanwhile
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # and of a thread
                for child in (thread / "children").read_text().split():
                    found += family(int(child))
    return found


def resident_bytes(pids: Iterable[int]) -> int:
    """Sum the proportional set sizes of processes."""
    return _memory(pids, "Pss:")


def own_bytes(pids: Iterable[int]) -> int:
    """Sum the anonymous memory of processes, shared pages in proportion; pages of files are not counted."""
    return _memory(pids, "Pss_Anon:")


def _memory(pids: Iterable[int], kind: str) -> int:
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))
    return total
