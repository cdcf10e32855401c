"""Room for connections among the files that this process may have open."""

import logging
import resource

logger = logging.getLogger(__name__)

_OTHERS = 512  # models, metrics, logs, what is read on the way


def room_for(connections: int) -> int:
    """Raise this process's limit on open files as far as so many connections need it; gives how many fit.

    Past its limit a process accepts nothing any more, and whatever else it opens fails.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHERS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    fitting = max(1, min(connections, wanted - _OTHERS))
    if fitting < connections:
        logger.warning("only %d connections fit into the limit of %d open files, not %d", fitting, hard, connections)
    return fitting
