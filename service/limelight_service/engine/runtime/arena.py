"""The memory that graphs compute in: one arena of all sessions of the process, with a limit.

Without it each session has an arena of its own, which grows as far as a run asks: one run could take the machine's
memory, and the process with it. Weights are not in it. Shared by two workers it is as fast (0.95 of the time, on an
encoder of 6 layers x 384).
"""

import logging
import threading
from typing import Any

logger = logging.getLogger(__name__)

_lock = threading.Lock()
_limits: list[int] = []


def share_arena(ort: Any, limit: int) -> None:
    """Have every session that is opened from now on compute in one arena of so many bytes; a run that needs more fails.

    Only the first call of a process counts: the runtime keeps the arena for good.
    """
    with _lock:
        if _limits:
            return
        kind, memory = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, ort.OrtMemType.DEFAULT
        ort.create_and_register_allocator(
            ort.OrtMemoryInfo("Cpu", kind, 0, memory), ort.OrtArenaCfg({"max_mem": limit, "arena_extend_strategy": -1})
        )
        _limits.append(limit)
        logger.debug("runs of graphs may take %d bytes together", limit)


def use_arena(options: Any) -> bool:
    """Have a session compute in the shared arena; gives whether there is one."""
    if _limits:
        options.add_session_config_entry("session.use_env_allocators", "1")
        options.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    return bool(_limits)
