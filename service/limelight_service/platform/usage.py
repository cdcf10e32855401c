"""What this process uses: processor time, memory and descriptors, under the names that Prometheus's clients give."""

import os
import resource
from contextlib import suppress
from pathlib import Path

CPU, MEMORY, STARTED = "process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"
OPEN, MOST_OPEN = "process_open_fds", "process_max_fds"


def process_usage(proc: Path = Path("/proc")) -> dict[str, float]:
    """Read what this process uses now; of what only /proc tells, nothing where there is none.

    Returns:
        Seconds of processor time, bytes of memory, seconds since 1970 of the start, and descriptors, by metric.
    """
    own = resource.getrusage(resource.RUSAGE_SELF)
    found = {CPU: own.ru_utime + own.ru_stime, MOST_OPEN: float(resource.getrlimit(resource.RLIMIT_NOFILE)[0])}
    with suppress(OSError, ValueError, StopIteration):
        # proc_pid_stat(5): after the name in brackets, fields 22 and 24 are the start in ticks and the pages of memory.
        fields = (proc / "self" / "stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in (proc / "stat").read_text().splitlines() if line.startswith("btime "))
        found[STARTED] = float(booted.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
        found[MEMORY] = float(int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))
        found[OPEN] = float(len(os.listdir(proc / "self" / "fd")))
    return found
