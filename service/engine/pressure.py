"""What is otherwise while time presses: lanes come first, for the interpreter's lock and for cores."""

import asyncio
import math
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread

_SHORT = 1e-4
_HELD = 1.0  # seconds since it was last pressing


class Pressure:
    """Has threads change sooner, and lanes stay on cores of their own, while time presses. For one event loop.

    Every call that arrives is work for the event loop, whatever becomes of it. Where more come than can be answered, it
    always has some, and lanes wait for two things (docs/decisions/0024-lanes-come-first-while-time-presses.md):

    - for the interpreter's lock. Python takes it from a thread that has had it for a whole turn; the event loop lets go
      of it often, has it back before the other is awake, and so keeps it for several turns.
    - for a core. The kernel looks for none that is free when a thread is woken on a busy machine, so that two threads
      share one while another has nothing to do. Where lanes are as many as cores, each has its own.

    Otherwise both cost more than they win: a model of 50 µs was answered 15 and 20 % less often.
    """

    def __init__(self, lanes: Sequence[Thread]) -> None:
        """Be ready for it. lanes: the threads, as they are when it presses."""
        self._lanes = lanes
        self._usual = 0.0
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def press(self) -> None:
        """Have lanes come first for a while."""
        loop = asyncio.get_running_loop()
        self._until = loop.time() + _HELD
        if self._timer is None:
            self._usual = sys.getswitchinterval()
            sys.setswitchinterval(min(self._usual, _SHORT))
            self._place(apart=True)
            self._timer = loop.call_at(self._until, self._look)

    def close(self) -> None:
        """Have everything as it was; turns that somebody else has set meanwhile stay."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if math.isclose(sys.getswitchinterval(), min(self._usual, _SHORT)):
                sys.setswitchinterval(self._usual)
            self._place(apart=False)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._until:
            self._timer = loop.call_at(self._until, self._look)
        else:
            self.close()

    def _place(self, *, apart: bool) -> None:
        """Let each lane run on a core of its own, or on any that this thread may use; where that can be said."""
        if not hasattr(os, "sched_setaffinity"):
            return
        cores = sorted(os.sched_getaffinity(0))
        if apart and len(self._lanes) != len(cores):
            return
        for place, lane in enumerate(self._lanes):
            if lane.native_id is not None:
                with suppress(OSError):  # of one that has ended
                    os.sched_setaffinity(lane.native_id, {cores[place]} if apart else cores)
