"""The threads of `limelight serve`, by what they do, from /proc: those that it starts have names there."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

TAKES, CORE = "event loop that takes calls", "gRPC's threads"
ANSWERS, LANES, PREPARATION, POOL = "event loop that answers", "lanes", "preparation", "the runtime's pool"
KINDS = (TAKES, CORE, ANSWERS, LANES, PREPARATION, POOL)
_NAMED = {"lane": LANES, "prepare": PREPARATION}


def threads_of(pids: Sequence[int]) -> dict[int, str]:
    """Tell what each thread of a server does. pids: its processes, the one that takes calls first."""
    return {int(task.name): kind for task, kind in _tasks(pids)}


def seconds_of(pids: Sequence[int]) -> Counter[str]:
    """Processor time of a server's threads so far, by what they do. pids: as `threads_of` has them."""
    total = Counter(dict.fromkeys(KINDS, 0.0))
    for task, kind in _tasks(pids):
        with suppress(FileNotFoundError, ProcessLookupError):
            total[kind] += int((task / "schedstat").read_text().split()[0]) / 1e9
    return total


def _tasks(pids: Sequence[int]) -> Iterator[tuple[Path, str]]:
    for pid in pids:
        first = pid == pids[0]
        for task in Path(f"/proc/{pid}/task").iterdir():
            if int(task.name) == pid:
                yield task, TAKES if first else ANSWERS
                continue
            with suppress(FileNotFoundError, ProcessLookupError):
                name = (task / "comm").read_text().strip().partition("-")[0]
                yield task, CORE if first else _NAMED.get(name, POOL)
