"""Pools: rows of one model that generate together, and what becomes of them where the runtime fails."""

import time
from collections.abc import Sequence
from functools import partial

from service.engine.decoder import Decoder
from service.engine.jobs import Job, RowEvent, failure
from service.engine.observer import Observer
from service.engine.together import CutError, Together, is_over
from service.errors import OverrunError

# Seconds for which rows wait for the streams of others.
PATIENCE = 0.02
# One row may be so many tokens ahead of its stream, n rows the n²th part of it: each hand-over between a lane and the
# loop costs about as much as a step, and many rows share it. So many more, and a stream counts as far behind.
_AHEAD = 64
_SLACK = 4


class Pool:
    """The rows of one model and one group that generate at the same time. For one lane at a time.

    Where the runtime fails on rows together, none of them is to blame yet: each goes on alone, from its start. A row
    that fails alone, or has told tokens already, gets the error; so do all where a run took too long, for each might
    take as long again. What a library throws is a failure like any other: panics are no `Exception`.
    """

    def __init__(self, decoder: Decoder, model: str, observer: Observer, *, most: int) -> None:
        self._make = partial(Together, decoder, model, observer)
        self._most = most
        self._together = self._make()
        self._alone: list[Together] = []
        self._stepped = 0.0
        self.pace = 0.0

    @property
    def rows(self) -> int:
        """Rows that still generate."""
        return len(self._together.rows) + len(self._alone)

    @property
    def jobs(self) -> list[Job]:
        """Give the rows that still generate."""
        return [row.job for each in [self._together, *self._alone] for row in each.rows]

    def is_due(self, now: float) -> bool:
        """Tell whether it is time for a step: most rows could send another token, or tell none.

        Rows far ahead of their streams would take turns from the loop that sends their tokens, and leave early, so that
        few share the steps of the others. now: by `time.monotonic`; a stream that does not keep up holds others back
        for a moment only, and not at all once it is far behind.
        """
        unsent = [row.job.call.unsent for each in [self._together, *self._alone] for row in each.rows]
        ahead = _AHEAD // max(1, len(unsent)) ** 2
        ready = sum(each <= ahead for each in unsent)
        keeping_up = sum(each <= ahead + _SLACK for each in unsent)
        return ready > 0 and (2 * ready >= keeping_up or now - self._stepped >= PATIENCE)

    @property
    def room(self) -> int:
        """Rows that may still join."""
        return max(0, self._most - self.rows)

    def join(self, jobs: Sequence[Job], wide: bool = False) -> list[RowEvent]:
        """Let rows begin, all of the group of those here; they take part from the next step on.

        wide: with every core. Returns: rows that are done with already, or that nobody waits for any more.
        """
        if not self.rows:
            self._stepped = time.monotonic()
        happened = self._together.leave(time.monotonic())
        waiting = [job for job in jobs if not is_over(job, time.monotonic())]
        happened += [(job, CutError(0)) for job in jobs if job not in waiting]
        try:
            return happened + self._together.join(waiting, wide)
        except BaseException as error:
            if len(waiting) == 1 or isinstance(error, OverrunError):
                return [*happened, *((job, failure(error)) for job in waiting)]
            return happened + self._begin_alone(waiting, wide)

    def step(self, wide: bool = False) -> list[RowEvent]:
        """Put out a token for every row: tell of tokens, of rows that ended, and of those nobody waits for any more."""
        happened: list[RowEvent] = []
        again: list[Job] = []
        now = time.monotonic()
        for each in [self._together, *self._alone]:
            happened += each.leave(now)
            if not each.rows:
                continue
            before = list(each.rows)
            try:
                happened += each.step(wide)
            except BaseException as error:
                again_alone = len(before) > 1 and not isinstance(error, OverrunError)
                untold = [row.job for row in before if not row.told] if again_alone else []
                happened += [(row.job, failure(error)) for row in before if row.job not in untold]
                again += untold
                each.clear()
        self._alone = [each for each in self._alone if each.rows]
        waited = min(now - self._stepped, PATIENCE)  # a reader who stops holds up rows of his own pool, and no others
        self._stepped = time.monotonic()
        self.pace = waited + (self._stepped - now)
        return happened + self._begin_alone(again, wide)

    def _begin_alone(self, jobs: Sequence[Job], wide: bool) -> list[RowEvent]:
        happened: list[RowEvent] = []
        for job in jobs:
            apart = self._make()
            try:
                happened += apart.join([job], wide)
            except BaseException as error:
                happened.append((job, failure(error)))
            else:
                self._alone += [apart] if apart.rows else []
        return happened
