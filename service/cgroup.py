"""What this process's control group allows it of processor time and memory: version 2, 1, or both side by side.

A limit counts for everything below it, so the tightest one between the process's own group and the mounted root is the
one that holds. Inside a container the mounted root is often the process's own group (`/proc/self/mountinfo` tells).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_PROC = Path("/proc/self")
_UNIFIED = ""  # version 2 has one hierarchy, without a controller's name


@dataclass(frozen=True)
class _Mount:
    """A mounted hierarchy. root: the group that is found at `point`; controllers: of version 1, none for version 2."""

    point: Path
    root: PurePosixPath
    controllers: frozenset[str]

    def folders(self, group: PurePosixPath) -> Iterator[Path]:
        """Yield the folders from a group up to the mounted root, which is all there is of a group outside of it."""
        inside = group.relative_to(self.root) if group.is_relative_to(self.root) else PurePosixPath()
        if ".." in inside.parts:  # the group lies outside of the process's namespace
            inside = PurePosixPath()
        for part in (inside, *inside.parents) if inside.parts else (inside,):
            yield self.point / part


def cpu_quota(proc: Path = _PROC) -> float | None:
    """Read how many cores' time the control group grants; None without a limit.

    proc: the process's folder under /proc.
    """
    found = [_quota(folder) for folder in _folders(proc, "cpu")]
    return min((each for each in found if each is not None), default=None)


def memory_limit(proc: Path = _PROC) -> int | None:
    """Read how many bytes of memory the control group grants; None without a limit.

    Version 1 writes a number near 2^63 where there is none.
    """
    found = [_bytes(folder) for folder in _folders(proc, "memory")]
    return min((each for each in found if each is not None), default=None)


def _folders(proc: Path, controller: str) -> list[Path]:
    """List the folders whose limits of one controller hold for a process."""
    try:
        mounts = [_mount(line) for line in (proc / "mountinfo").read_text().splitlines()]
        lines = (proc / "cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return []
    folders: list[Path] = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        for mount in mounts:
            if mount is not None and _is_of(mount, controllers, controller):
                folders += mount.folders(PurePosixPath(group))
    return folders


def _is_of(mount: _Mount, controllers: str, wanted: str) -> bool:
    if controllers == _UNIFIED:
        return not mount.controllers
    return wanted in controllers.split(",") and wanted in mount.controllers


def _mount(line: str) -> _Mount | None:
    """Read a line of mountinfo (proc_pid_mountinfo(5)); None where it is no control group."""
    before, _, after = line.partition(" - ")
    kind, _, options = after.split(" ", 2)
    if kind not in ("cgroup", "cgroup2"):
        return None
    root, point = (each.replace(r"\040", " ") for each in before.split(" ")[3:5])
    controllers = frozenset(options.split(",")) if kind == "cgroup" else frozenset()
    return _Mount(Path(point), PurePosixPath(root), controllers)


def _quota(folder: Path) -> float | None:
    """Read one folder's quota in cores (version 2, then 1)."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    try:
        cores = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):  # "max", or nothing there: no quota
        return None
    return cores if cores > 0 else None


def _bytes(folder: Path) -> int | None:
    """Read one folder's limit of memory (version 2, then 1)."""
    text = _text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes")
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
