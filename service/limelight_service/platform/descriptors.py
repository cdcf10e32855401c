"""Room for connections among the files that this process may have open."""

import logging
import os
import resource
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

_SPARE = 24  # what is opened on the way: models, certificates, processes that check bundles
_SCRAPERS = 128
_OTHERS = 512


def room_for(connections: int, ports: int = 1) -> int:
    """Raise this process's limit on open files as far as so many connections of each port need it; gives how many fit.

    Past its limit a process accepts nothing any more, and whatever else it opens fails: what it has open now is left
    to it, what metrics may take, and some.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ports * connections + _OTHERS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    left = wanted - min(_OTHERS, _open() + _SPARE + room_for_scrapers())
    fitting = max(1, min(connections, left // ports))
    if fitting < connections:
        logger.warning(
            "only %d connections fit into the limit of %d open files, not %d: raise it to %d (ulimit -n, LimitNOFILE)",
            fitting,
            hard,
            connections,
            ports * connections + _OTHERS,
        )
    return fitting


def room_for_scrapers() -> int:
    """Give how many connections the port of metrics may have: an eighth of the files, and no more than are of use."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _SCRAPERS if hard == resource.RLIM_INFINITY else max(2, min(_SCRAPERS, hard // 8))


def _open() -> int:
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return len(list(Path("/dev/fd").iterdir())) if Path("/dev/fd").is_dir() else _SPARE
