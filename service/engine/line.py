"""The queue of one model: its rows that wait and its pools, what they have been costing, and what may start when."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice

from service.engine.cost import LearnedCost, LearnedMean
from service.engine.jobs import Job
from service.engine.model import Model
from service.engine.seat import Seat
from service.engine.shapes import extent, places, union

# A row is given up when even this part of its expected time is more than its deadline leaves.
_HOPELESS = 0.5
_TYPICAL_STEPS = 16.0
# While other lanes work, a batch that is smaller than usual waits for company: half as long as what one more row would
# save, and no longer than this.
_LONGEST_WAIT = 0.002
# Seconds of a step from which two pools do no less than one: below, much of it holds the interpreter's lock, which the
# other pool needs as well, and the event loop to send the tokens. 16 rows of small Transformers, steps of 5 ms: 8 to
# 20 % more tokens in one pool, and the first of a newcomer after 12 ms instead of 18; steps of 12 ms: the same; of
# 34 ms: as many tokens, and 91 to 123 ms instead of 67 to 81.
_LONG_STEP = 1e-2
# The batch after the one that computes is put together when this part of its time is over: later, it would not be ready
# in time; sooner, it would be smaller.
_AHEAD = 0.5
# After memory ran out, each batch lets the next be so much larger: twice as large after 70.
_GROWTH = 1.01


@dataclass(eq=False)
class Line:
    """The queue of one model.

    waiting_places: of all rows that wait. running: batches and pools that lanes have taken; running_rows: that
    began with them. cost: of a batch, by places; of a generating model, of the rows that join.
    batch_rows: of its batches. most: places in a batch that there seems to be memory for; None while it never ran out.
    began, expected: of the batch that computes where they are staged, since when (None for since now) and how long.
    steps: of a generating model, the cost of a step by the rows that take it. pace: the time from one step of a row to
    its next, by all rows that are generated: with the waiting for lanes and for streams. seats: its pools.
    """

    model: Model
    waiting: dict[int, Job] = field(default_factory=dict)
    waiting_places: int = 0
    running: int = 0
    running_rows: int = 0
    served: float = 0.0
    cost: LearnedCost = field(default_factory=LearnedCost)
    row_places: LearnedMean = field(default_factory=lambda: LearnedMean(32.0))
    batch_rows: LearnedMean = field(default_factory=lambda: LearnedMean(1.0))
    steps: LearnedCost = field(default_factory=lambda: LearnedCost(1e-3))
    pace: LearnedCost = field(default_factory=LearnedCost)
    row_steps: LearnedMean = field(default_factory=lambda: LearnedMean(_TYPICAL_STEPS))
    seats: list[Seat] = field(default_factory=list)
    most: float | None = None
    began: float | None = None
    expected: float = 0.0

    @property
    def live(self) -> int:
        """Rows that are being generated."""
        return sum(seat.pool.rows for seat in self.seats)

    @property
    def is_busy(self) -> bool:
        """True where something waits or runs."""
        return bool(self.waiting or self.running or any(seat.pool.rows for seat in self.seats))

    @property
    def pools(self) -> int:
        """How many pools its rows are spread over: several where a step takes long enough to win by it."""
        policy, rows = self.model.policy, self.live + len(self.waiting)
        worth = rows > policy.max_rows or self.steps.seconds(rows) > _LONG_STEP
        return policy.concurrent if worth else 1

    def is_ready(self, now: float) -> bool:
        """Tell whether a lane could start something now, unless what waits turns out to be late."""
        if self.model.pool is None:
            return bool(self.waiting) and self.running < self.model.policy.concurrent
        return any(not seat.taken and seat.pool.is_due(now) for seat in self.seats) or bool(
            self.waiting and self.seat()
        )

    @property
    def oldest(self) -> int:
        """The ticket of the oldest row; rows that are being generated count as older than any."""
        return next(iter(self.waiting)) if self.waiting and not self.live else -1

    def seat(self) -> Seat | None:
        """Give the pool that the oldest row may join now: the emptiest that no lane has of the fullest ones, so many as
        there should be; a new one where there may be more.
        """
        oldest = next(iter(self.waiting.values()))
        pools, fitting = self.pools, [seat for seat in self.seats if seat.pool.room and seat.fits(oldest)]
        fullest = sorted(fitting, key=lambda seat: seat.pool.rows, reverse=True)[:pools]
        best = min((seat for seat in fullest if not seat.taken), key=lambda seat: seat.pool.rows, default=None)
        make = self.model.pool
        most = pools if fitting else self.model.policy.concurrent
        if make is not None and (best is None or best.pool.rows) and len(self.seats) < most:
            best = Seat(make())
            self.seats.append(best)
        return best

    def company_until(self) -> float:
        """Tell until when a batch waits for company, on `time.monotonic`'s clock; 0 where it does not."""
        usual = min(round(self.batch_rows.value), self.model.policy.max_rows)
        if self.model.pool is not None or len(self.waiting) >= usual:
            return 0.0
        return next(iter(self.waiting.values())).admitted / 1e9 + min(_LONGEST_WAIT, self.cost.fixed / 2)

    def staged_until(self, now: float) -> float:
        """Tell until when the batch after the one that computes is left to grow; 0 where it is not."""
        policy = self.model.policy
        if not (policy.staged and self.running) or self.model.pool is not None or len(self.waiting) >= policy.max_rows:
            return 0.0
        if self.began is None:
            self.began = now
        return self.began + _AHEAD * self.expected

    def window(self) -> list[Job]:
        """Give the oldest rows that wait."""
        return list(islice(self.waiting.values(), self.model.policy.window))

    def exhausted(self, jobs: Sequence[Job]) -> None:
        """Take account of a batch that there was not enough memory for: the next ones are half as large at most."""
        tried = extent(reduce(union, (job.shape for job in jobs)), len(jobs))
        self.most = max(1.0, min(tried / 2, self.most or math.inf))

    def grow(self) -> None:
        """After a batch: what memory was too short for once, since others had it, is tried again by and by."""
        if self.most is not None:
            self.most *= _GROWTH
            if self.most >= self.model.policy.max_tokens:
                self.most = None

    def least_seconds(self, job: Job) -> float:
        """Give what a row takes at least."""
        return _HOPELESS * self.cost.seconds(places(job.shape)) if self.cost.is_known else 0.0

    @property
    def backlog(self) -> float:
        """Expect the lane seconds of all that waits, and of what is generated."""
        seconds = self.cost.seconds(self.waiting_places) if self.waiting else 0.0
        if self.model.pool is not None:
            seconds += self.row_steps.value * self.steps.seconds(self.live + len(self.waiting)) / 2
        return seconds
