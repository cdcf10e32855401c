"""Limits of control groups: the tightest one on the way up counts, however the groups are mounted."""

from pathlib import Path

import pytest

from limelight_service.platform.cgroup import cpu_quota, memory_limit

GIB = 2**30


class Machine:
    """A process's /proc folder and its mounted control groups, as files."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.groups = folder / "proc", folder / "cgroup"
        self.proc.mkdir()
        (self.proc / "mountinfo").write_text("23 1 0:1 / / rw - ext4 /dev/vda rw\n")
        (self.proc / "cgroup").write_text("")

    def mount(self, name: str, *, root: str = "/") -> None:
        """Mount the hierarchy of version 2."""
        with (self.proc / "mountinfo").open("a") as file:
            file.write(f"35 31 0:32 {root} {self.groups / name} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n")

    def belongs(self, group: str, *, controllers: str = "") -> None:
        """Put the process into a group."""
        with (self.proc / "cgroup").open("a") as file:
            file.write(f"{'3' if controllers else '0'}:{controllers}:{group}\n")

    def write(self, path: str, content: str) -> None:
        """Set a limit."""
        file = self.groups / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")

    def limits(self) -> tuple[float | None, int | None]:
        """Limits that are read."""
        return cpu_quota(self.proc), memory_limit(self.proc)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without control groups."""
    return Machine(tmp_path)


def test_without_control_groups_there_is_no_limit(machine: Machine, tmp_path: Path) -> None:
    assert machine.limits() == (None, None)
    assert (cpu_quota(tmp_path / "none"), memory_limit(tmp_path / "none")) == (None, None)


def test_the_tightest_limit_of_nested_groups_counts(machine: Machine) -> None:
    machine.mount("all")
    machine.belongs("/kube.slice/pod/box")
    machine.write("all/kube.slice/pod/box/cpu.max", "max 100000")
    machine.write("all/kube.slice/pod/box/memory.max", "max")
    assert machine.limits() == (None, None)
    machine.write("all/kube.slice/pod/cpu.max", "150000 100000")
    machine.write("all/kube.slice/memory.max", str(3 * GIB))
    assert machine.limits() == (1.5, 3 * GIB)
    machine.write("all/kube.slice/pod/box/cpu.max", "20000 50000")
    machine.write("all/kube.slice/pod/box/memory.max", str(GIB))
    assert machine.limits() == (0.4, GIB)
    machine.write("all/other/cpu.max", "1000 100000")  # not on the way up
    assert machine.limits() == (0.4, GIB)


def test_a_container_sees_its_own_group_as_the_root(machine: Machine) -> None:
    # Without a namespace of its own: /proc has the path on the host, the mount shows its end alone.
    machine.mount("all", root="/docker/abc")
    machine.belongs("/docker/abc/inner")
    machine.write("all/cpu.max", "200000 100000")
    machine.write("all/inner/memory.max", str(GIB))
    assert machine.limits() == (2.0, GIB)


@pytest.mark.parametrize("group", ["/", "/../elsewhere", "/quite/elsewhere"])
def test_a_group_that_cannot_be_seen_leaves_the_limits_of_the_root(machine: Machine, group: str) -> None:
    machine.mount("all", root="/docker/abc" if "quite" in group else "/")
    machine.belongs(group)
    machine.write("all/cpu.max", "300000 100000")
    machine.write("elsewhere/cpu.max", "100000 100000")
    assert machine.limits() == (3.0, None)


def test_hierarchies_of_version_1_count_too(machine: Machine) -> None:
    with (machine.proc / "mountinfo").open("a") as file:
        for number, controllers in ((33, "cpu,cpuacct"), (34, "memory")):
            options = f"rw,nosuid shared:3 - cgroup cgroup rw,{controllers}"
            file.write(f"{number} 31 0:{number} / {machine.groups}/{controllers} {options}\n")
    machine.mount("unified")
    machine.belongs("/box", controllers="memory")
    machine.belongs("/pod/box", controllers="cpu,cpuacct")
    machine.belongs("/box")
    machine.write("unified/box/memory.max", str(2 * GIB))
    machine.write("memory/memory.limit_in_bytes", str(2**63 - 4096))  # none
    machine.write("memory/box/memory.max", "1")  # no file of this version
    machine.write("cpu,cpuacct/pod/box/cpu.cfs_quota_us", "-1")
    machine.write("cpu,cpuacct/pod/box/cpu.cfs_period_us", "100000")
    assert machine.limits() == (None, 2 * GIB)
    machine.write("memory/box/memory.limit_in_bytes", str(GIB))
    machine.write("cpu,cpuacct/pod/cpu.cfs_quota_us", "150000")
    machine.write("cpu,cpuacct/pod/cpu.cfs_period_us", "50000")
    assert machine.limits() == (3.0, GIB)
