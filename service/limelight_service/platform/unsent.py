"""Bytes that the kernel still has to send. It sends them after a process has ended, but only until the peer says
anything more: a large answer to a slow reader would be cut off.
"""

import asyncio
import os
import time
from pathlib import Path

_TABLES = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_QUEUES, _INODE = 4, 9  # columns of them
_LOOK_SECONDS = 0.01


def unsent() -> int:
    """Count the bytes that this process has written to TCP connections and that have not arrived; 0 without /proc."""
    own, total = _inodes(), 0
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if columns[_INODE] in own:
                total += int(columns[_QUEUES].partition(":")[0], 16)
    return total


async def all_sent(seconds: float) -> None:
    """Wait until everything has arrived, for at most so long."""
    end = time.monotonic() + seconds
    while unsent() and time.monotonic() < end:
        await asyncio.sleep(_LOOK_SECONDS)


def _inodes() -> set[str]:
    found: set[str] = set()
    try:
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return found
    for each in descriptors:
        try:
            target = os.readlink(f"/proc/self/fd/{each}")
        except OSError:
            continue  # closed meanwhile
        if target.startswith("socket:["):
            found.add(target[len("socket:[") : -1])
    return found
