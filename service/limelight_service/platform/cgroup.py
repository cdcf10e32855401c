"""The limits of this process's control group, of version 2 or 1: processor time and memory.

A limit counts for everything below it, so the tightest one between the process's own group and the mounted root holds.
Inside a container the mounted root is often the process's own group (`/proc/self/mountinfo` says which).
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PROC = Path("/proc/self")
_UNLIMITED = 2**60  # bytes; version 1 says some 2**63 where there is no limit


def cpu_quota(proc: Path = _PROC) -> float | None:
    """Read the processor time that the control group grants, in cores; None without a limit.

    proc: the process's folder under /proc.
    """
    quotas = [each.split() for each in _limits(proc, "cpu.max")]
    quotas += [
        [quota, period]
        for quota, period in zip(
            _limits(proc, "cpu.cfs_quota_us", "cpu"), _limits(proc, "cpu.cfs_period_us", "cpu"), strict=False
        )
        if int(quota) > 0
    ]
    return min((int(quota) / int(period) for quota, period in quotas if quota != "max"), default=None)


def memory_limit(proc: Path = _PROC) -> int | None:
    """Read the memory that the control group grants, in bytes; None without a limit."""
    limits = [int(each) for each in _limits(proc, "memory.max") if each.strip() != "max"]
    limits += [int(each) for each in _limits(proc, "memory.limit_in_bytes", "memory")]
    return min((each for each in limits if each < _UNLIMITED), default=None)


def _limits(proc: Path, name: str, controller: str = "") -> Iterator[str]:
    """Yield the contents of a file of each group from the process's own one up to the mounted root.

    controller: of version 1, each of which has groups of its own.
    """
    try:
        mounts = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
        # cgroups(7): number, controllers, group; version 2 is number 0, and names none.
        lines = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
    except OSError:  # not Linux
        return
    groups = [group for _, controllers, group in lines if controller in controllers.split(",")]
    # proc_pid_mountinfo(5): the mounted group and its folder are fields 4 and 5; type, source and the options of the
    # file system, which name the controllers of version 1, follow the separator.
    kind = "cgroup" if controller else "cgroup2"
    mounts = [
        line
        for line in mounts
        if line[(at := line.index("-")) + 1] == kind and (not controller or controller in line[at + 3].split(","))
    ]
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
