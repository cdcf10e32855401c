"""`limelight serve` in processes of its own, as a test starts, watches and scrapes it."""

import os
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def scrape(port: int) -> dict[str, float]:
    """Read a page of metrics."""
    data = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    lines = (line.rsplit(" ", 1) for line in data.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def scrape_page(port: int, accept: str) -> str:
    """Read a page of metrics in a format."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as response:
        page: str = response.read().decode()
    return page


# A job in the background ignores SIGINT, and its children with it: a test says which of both it wants.
# Limits that no flag sets are given as flags are.
_SERVE = """
import signal, sys
from limelight.cli import main
import limelight_service.command
load_settings = limelight_service.command.load_settings
limelight_service.command.load_settings = lambda flags, **rest: load_settings(flags | {limits!r}, **rest)
signal.signal(signal.SIGINT, {handler})
{before}
sys.exit(main())
"""


@contextmanager
def process(
    *flags: str,
    background: bool = False,
    errors: int | None = None,
    before: str = "",
    limits: Mapping[str, Any] | None = None,
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run `limelight serve` in a process of its own; the list gets its log lines.

    background: as a shell's job. errors: a descriptor that gets the log instead. before: code that runs first. limits:
    settings that have no flag.
    """
    handler = "signal.SIG_IGN" if background else "signal.default_int_handler"
    command = [
        sys.executable,
        "-c",
        _SERVE.format(handler=handler, before=before, limits=dict(limits or {})),
        "serve",
        *flags,
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if errors is None else errors,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    logged: list[str] = []
    reader = threading.Thread(target=logged.extend, args=(running.stderr or (),))
    reader.start()
    try:
        yield running, logged
    finally:
        running.kill()
        running.wait()
        reader.join()
        assert running.stdout is not None
        running.stdout.close()
        if running.stderr is not None:
            running.stderr.close()


def started(running: subprocess.Popen[str]) -> str:
    """Wait until a process serves; its address."""
    assert running.stdout is not None
    found = re.search(r"serving on (127\.0\.0\.1:\d+)", running.stdout.readline())
    assert found
    return found[1]


PROCESSES = "supervisor.processes"


def children(parent: int, doing: str = PROCESSES) -> list[int]:
    """The frontends and engines (or other processes, by their command) that a process started and that are there still,
    oldest first.
    """
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            after = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text(errors="replace")
        except OSError:
            continue
        if int(after[1]) == parent and after[0] != "Z" and doing in command:
            found.append(int(folder.name))
    return sorted(found)


def engines(parent: int) -> list[int]:
    """The engines that a supervisor started."""
    return children(parent, "main('engine'")


def frontends(parent: int) -> list[int]:
    """The frontends that a supervisor started."""
    return children(parent, "main('frontend'")


def alive(pid: int) -> bool:
    """True while a process runs."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the second where it ends between opening and reading
        return False
    return "Z" not in stat.rpartition(")")[2].split()[0]
