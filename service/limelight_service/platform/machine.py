"""Cores and memory that this process may use."""

import math
import os
import resource

from limelight_service.platform.cgroup import cpu_quota, memory_limit


def available_cores() -> int:
    """Count the cores that this process may use: its affinity, cut to the quota of its control group (rounded up)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


def available_memory() -> int:
    """Count the bytes of memory that this process may have, used ones included.

    The machine's memory, cut to the limits of the control group and of the process's address space and data.
    """
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    group = memory_limit()
    limits += [] if group is None else [group]
    of_process = (resource.getrlimit(each)[0] for each in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    limits += [each for each in of_process if each != resource.RLIM_INFINITY]
    return min(limits)
