"""How much is asked of a server, by what it can do: worked out when metrics are read, from what is counted anyway.

Seconds of work that rows asked for, by the seconds that the server's tightest part had. A row that was refused counts
as one that was begun: it left no queue and took next to no time, and is seen here all the same.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from limelight_service.observability.counters import FamilySnapshot, Snapshot
from limelight_service.observability.observer import Rejection, Stage

SATURATION, WORK, CAPACITY = "limelight_saturation", "limelight_work_seconds_total", "limelight_capacity"
WINDOW = 10.0  # seconds at least, over which it is taken: longer than most batches, shorter than an autoscaler's pause
# Refused rows that are a smaller share than this are chance, and no sign that batches cannot be fuller than they are.
_CHANCE = 0.01
# A quota, and a stop, say nothing of what the server can do.
_LOST = frozenset((Rejection.QUEUE_FULL, Rejection.OVERLOAD, Rejection.DEADLINE, Rejection.CANCELLED))


class Part(StrEnum):
    """What work takes: each can be the one that is short.

    WORKERS: their threads, of which UNFILLED is what full batches would save. CORES: of the machine, for all processes.
    FRONTENDS, ENGINES: the event loops, each of which is one thread.
    """

    WORKERS = "workers"
    UNFILLED = "unfilled"
    CORES = "cores"
    FRONTENDS = "frontends"
    ENGINES = "engines"


@dataclass(frozen=True)
class _Counts:
    """What had been counted at a moment. begun: rows, by model. lost: rows that were refused for want of capacity."""

    moment: float
    begun: dict[str, float]
    lost: float
    work: dict[str, float]


class Saturation:
    """Works the gauge out, over the time since a reading at least `WINDOW` seconds ago. For one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._read = deque([_Counts(clock(), {}, 0.0, {})])

    @property
    def is_due(self) -> bool:
        """True where the last reading is old enough for the next one."""
        return self._clock() >= self._read[-1].moment + WINDOW

    def of(self, snapshot: Snapshot) -> float:
        """Give the saturation, from the counts of all processes; 0 where nothing is asked."""
        now = _counts(snapshot, self._clock())
        while len(self._read) > 1 and now.moment - self._read[1].moment >= WINDOW:
            self._read.popleft()
        before = self._read[0]
        self._read.append(now)
        seconds = now.moment - before.moment
        begun = sum(max(0.0, count - before.begun.get(model, 0.0)) for model, count in now.begun.items())
        lost = max(0.0, now.lost - before.lost)
        work = {part: max(0.0, value - before.work.get(part, 0.0)) for part, value in now.work.items()}
        waiting = sum(_by_label(snapshot["limelight_backlog_seconds"]).values())
        if seconds <= 0 or not (begun or lost or waiting or work.get(Part.WORKERS)):
            return 0.0
        # What a lost row would have taken: as much as each that was begun, lately, or ever where all were lost lately.
        known, rows = (dict(work), begun) if begun else (now.work, sum(now.begun.values()))
        if lost < _CHANCE * (begun + lost):
            work[Part.WORKERS] = max(0.0, work.get(Part.WORKERS, 0.0) - work.get(Part.UNFILLED, 0.0))
        work[Part.WORKERS] = work.get(Part.WORKERS, 0.0) + waiting
        asked = {part: spent + lost * known.get(part, 0.0) / max(1.0, rows) for part, spent in work.items()}
        capacity = _by_label(snapshot[CAPACITY])
        return max((asked.get(part, 0.0) / (can * seconds) for part, can in capacity.items() if can), default=0.0)

    def settle(self, snapshot: Snapshot) -> Snapshot:
        """Set the gauge in a snapshot of all processes, and give it."""
        if SATURATION in snapshot:
            snapshot[SATURATION] = {**snapshot[SATURATION], "series": [([], [self.of(snapshot)])]}
        return snapshot


def thread_clock() -> Callable[[], float]:
    """Give the clock of the calling thread's processor time, for any thread to read; 0 where the system has none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    number, last = time.pthread_getcpuclockid(threading.get_ident()), 0.0

    def read() -> float:
        nonlocal last
        with suppress(OSError):  # the thread has ended
            last = time.clock_gettime(number)
        return last

    return read


def _counts(snapshot: Snapshot, moment: float) -> _Counts:
    stages = snapshot["limelight_stage_duration_seconds"]["series"]
    begun = {model: sum(values[:-1]) for (model, stage), values in stages if stage == Stage.QUEUE}
    lost = sum(value for reason, value in _by_label(snapshot["limelight_rejected_total"]).items() if reason in _LOST)
    return _Counts(moment, begun, lost, _by_label(snapshot[WORK]))


def _by_label(family: FamilySnapshot) -> dict[str, float]:
    return {"".join(labels): values[0] for labels, values in family["series"]}
