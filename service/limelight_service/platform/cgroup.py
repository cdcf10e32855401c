"""The limits of this process's control group (version 2): processor time and memory.

A limit counts for everything below it, so the tightest one between the process's own group and the mounted root holds.
Inside a container the mounted root is often the process's own group (`/proc/self/mountinfo` says which).
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PROC = Path("/proc/self")


def cpu_quota(proc: Path = _PROC) -> float | None:
    """Read the processor time that the control group grants, in cores; None without a limit.

    proc: the process's folder under /proc.
    """
    quotas = (each.split() for each in _limits(proc, "cpu.max"))
    return min((int(quota) / int(period) for quota, period in quotas if quota != "max"), default=None)


def memory_limit(proc: Path = _PROC) -> int | None:
    """Read the memory that the control group grants, in bytes; None without a limit."""
    return min((int(each) for each in _limits(proc, "memory.max") if each.strip() != "max"), default=None)


def _limits(proc: Path, name: str) -> Iterator[str]:
    """Yield the contents of a file of each group from the process's own one up to the mounted root."""
    try:
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
        groups = [line.removeprefix("0::") for line in (proc / "cgroup").read_text().splitlines() if line[:3] == "0::"]
    except OSError:  # not Linux
        return
    # proc_pid_mountinfo(5): the mounted group and its folder are fields 4 and 5, the type follows the separator.
    mounts = [line for line in mounts if line[line.index("-") + 1] == "cgroup2"]
    roots = [[field.replace(r"\040", " ") for field in line[3:5]] for line in mounts]
    for group in groups:
        for root, folder in roots:
            path = PurePosixPath(group)
            inside = path.relative_to(root) if path.is_relative_to(root) else PurePosixPath()
            if ".." in inside.parts:  # the group lies outside of the process's namespace
                inside = PurePosixPath()
            for part in dict.fromkeys((inside, *inside.parents)):
                try:
                    yield (Path(folder) / part / name).read_text()
                except OSError:  # the root of all groups has no limits
                    continue
