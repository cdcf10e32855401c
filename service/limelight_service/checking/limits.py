"""Resource limits of a checking process, which it sets itself for one bundle after another."""

import contextlib
import math
import os
import resource
import time
from pathlib import Path

from limelight_service.settings import Settings

_SHARE = 5  # a check yields to processes that answer calls
_STATUS = Path("/proc/self/status")


def settle_process() -> None:
    """Leave no dump behind, yield to who answers calls, and be the first to go where memory runs out."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_SHARE)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def limit_next(settings: Settings) -> None:
    """Allow so much time of a core, and so much memory, from now on: past them the kernel ends the process, or memory
    is refused.
    """
    _limit(resource.RLIMIT_CPU, math.ceil(time.process_time()) + settings.check_cpu_seconds)
    # Of what is allocated, not of addresses: libraries reserve many more of those than they ever use.
    _limit(resource.RLIMIT_DATA, _held() + settings.check_bytes)


def lift() -> None:
    """Allow any memory again, to say what was found."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _held() -> int:
    """Count the bytes that the process has allocated, as the limit counts them; 0 where the system does not tell."""
    with contextlib.suppress(OSError, StopIteration):
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmData:"))
        return int(line.split()[1]) * 1024
    return 0
