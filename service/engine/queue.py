"""Rows that wait, by model, what each model has had of the lanes, and what its rows have been costing.

Not thread-safe: the lanes hold one lock around it. What a call costs here grows neither with the number of models nor
with the number of rows that wait.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from service.engine.jobs import Job
from service.engine.line import Line
from service.engine.model import Model, Pool
from service.engine.plan import Batch, joined, plan_batch
from service.engine.pool import PATIENCE
from service.engine.shapes import places

# Two callers who take turns are served best by a lane each, though one of them is alone now and then.
_CALM_SECONDS = 0.05


@dataclass(frozen=True)
class Work:
    """What a lane has taken to do.

    batch: rows to run, or that join the pool; None where a pool takes a step without any.
    wide: nothing else runs or waits, nor did a moment ago, so that it may have every core.
    expected: seconds that its model is charged until the true ones are known.
    """

    model: Model
    batch: Batch[Job] | None
    pool: Pool | None
    wide: bool
    expected: float

    @property
    def rows(self) -> tuple[Job, ...]:
        """The rows that start with it."""
        return self.batch.rows if self.batch else ()


class RowQueue:
    """All rows that wait for one of some lanes. rows: their number. running: what lanes have taken.

    due: when a lane that was given nothing should ask again, on `time.monotonic`'s clock; None for not before something
    changes.
    """

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self.due: float | None = None
        self._crowded = -math.inf
        self._lines: dict[Model, Line] = {}
        self._busy: dict[Model, Line] = {}
        self.running = 0
        self.rows = 0

    def is_ready(self, now: float) -> bool:
        """Tell whether a lane could start something now."""
        return any(line.is_ready(now) for line in self._busy.values())

    def holds(self, many: int) -> bool:
        """Tell whether so many rows wait for each lane."""
        return self.rows >= many * self._lanes

    def add(self, model: Model, jobs: Sequence[Job]) -> None:
        """Let rows wait."""
        line = self._lines.setdefault(model, Line(model))
        if model not in self._busy:
            line.served = joined(line.served, [each.served for each in self._busy.values()])
            self._busy[model] = line
        for job in jobs:
            line.waiting[job.ticket] = job
            own = places(job.shape)
            line.waiting_places += own
            line.row_places.learn(own)
        self.rows += len(jobs)

    def remove(self, model: Model, jobs: Iterable[Job]) -> int:
        """Take rows out again that still wait; gives how many did."""
        line = self._lines.get(model)
        if line is None:
            return 0
        removed = [job for job in jobs if job.ticket in line.waiting]
        self._take_out(line, removed)
        return len(removed)

    def forget(self, model: Model) -> bool:
        """Let go of a model, unless rows of it wait or run; gives whether nothing of it is left."""
        line = self._lines.get(model)
        if line is not None and not line.is_busy:
            del self._lines[model]
        return model not in self._lines

    def take(self, now: float) -> tuple[Work | None, list[tuple[Model, Job]]]:
        """Take what one lane does next, of the model that has had least; and the rows that need no answer any more."""
        dropped: list[tuple[Model, Job]] = []
        self.due = None
        while ready := [line for line in self._busy.values() if line.is_ready(now) and not self._waits(line, now)]:
            line = min(ready, key=lambda each: (each.served, each.oldest))
            work = self._take(line, now, dropped)
            if work is not None:
                return work, dropped
            self._settle(line)
        if any(line.live for line in self._busy.values()):  # whose pools may hold rows back
            self.due = min(now + PATIENCE, self.due or math.inf)
        return None, dropped

    def exhausted(self, model: Model, jobs: Sequence[Job]) -> None:
        """Take account of a batch that there was not enough memory for."""
        self._lines[model].exhausted(jobs)

    def finished(
        self,
        work: Work,
        joining: float,
        rows: int = 0,
        stepping: float = 0.0,
        ended: Sequence[int] = (),
        cut: Sequence[int] = (),
    ) -> None:
        """Take account of what a lane did: charge its model what it took, and learn from it what rows cost.

        joining: seconds for the rows that started; stepping: for a step of so many rows of the pool. ended: of each row
        that the pool has answered, how many steps it took; cut: of each that left before.
        """
        line = self._lines[work.model]
        line.running -= 1
        line.running_rows -= len(work.rows)
        line.began = None
        self.running -= 1
        line.served += joining + stepping - work.expected
        for seat in line.seats:
            if seat.pool is work.pool:
                seat.taken = False
        # Where only short answers are in time, the others still tell that answers are no shorter than was thought.
        for steps in (*ended, *(max(steps, line.row_steps.value) for steps in cut)):
            line.row_steps.learn(steps)
        if work.batch is not None and work.pool is None:
            line.batch_rows.learn(len(work.rows))
            line.grow()
        # A batch on every core tells nothing of the time that it takes on one, but it is better than no figure.
        if work.batch is not None and not (work.wide and line.cost.is_known):
            line.cost.learn(work.batch.tokens, joining)
        if rows and not (work.wide and line.steps.is_known):
            line.steps.learn(rows, stepping)
            if work.pool is not None:
                line.pace.learn(max(rows, line.live), work.pool.pace)
        self._settle(line)

    def expected_seconds(self, model: Model, rows: int, row_places: int | None, token_seconds: float = 0.0) -> float:
        """Expect how long from now so many more rows of a model take until the last is answered.

        row_places: of all of them; None where nobody knows yet, for what rows of the model have had. 0 while a lane is
        free and nothing waits: then nothing speaks against trying. token_seconds: between two tokens of a stream, at
        least, whatever lanes take.
        """
        line = self._lines.get(model)
        if line is None or (self.running < self._lanes and not self.rows):
            return 0.0
        if model.pool is not None:
            return self._expected_generation(line, rows, token_seconds)
        total = rows * line.row_places.value if row_places is None else row_places
        ahead = line.cost.seconds(line.waiting_places + total)
        ahead += max(0, len(line.waiting) + rows - 1) * line.cost.seconds(0)
        # Other models get as much of the lanes as this one does, as long as they have work.
        shared = ahead + sum(min(ahead, other.backlog) for other in self._busy.values() if other is not line)
        shared += line.running * line.cost.seconds(line.row_places.value) / 2
        return shared / self._lanes

    def _waits(self, line: Line, now: float) -> bool:
        """Tell whether a model's next batch still waits for company, and note until when."""
        until = max(line.company_until(), line.staged_until(now)) if self.running else 0.0
        if until <= now:
            return False
        self.due = until if self.due is None else min(self.due, until)
        return True

    def rows_of(self, model: Model) -> int:
        """Count a model's rows that wait, run or are being generated."""
        line = self._lines.get(model)
        if line is None:
            return 0
        return len(line.waiting) + (line.running_rows if model.pool is None else line.live)

    def waiting_seconds(self) -> float:
        """Expect how long one lane alone would take for all that waits."""
        return sum(line.backlog for line in self._busy.values())

    def _expected_generation(self, line: Line, rows: int, token_seconds: float) -> float:
        """Steps of pools as full as they would be, and before them those of the rows that must end first.

        A step takes what lanes need for it, or what it has been taking: where many rows stream their tokens, the event
        loop takes longer to send them.
        """
        pools = line.model.policy.concurrent
        most = pools * line.model.policy.max_rows
        wanted = line.live + len(line.waiting) + rows
        per_pool = min(wanted, most) / pools
        others = sum(1 for other in self._busy.values() if other is not line)
        step = max(line.steps.seconds(per_pool) * (1 + others), token_seconds)
        if line.pace.is_known:
            step = max(step, line.pace.seconds(min(wanted, most)))
        return line.row_steps.value * step * (1 + max(0, wanted - most) / most)

    def _take(self, line: Line, now: float, dropped: list[tuple[Model, Job]]) -> Work | None:
        model = line.model
        seat = None
        window = line.window()
        # Lanes that are busy with other models need none of what waits: by the time they are free, more has come.
        others = self.running - line.running
        policy = replace(
            model.policy,
            spread=max(1, min(model.policy.spread, self._lanes - others)),
            max_tokens=min(model.policy.max_tokens, int(line.most or model.policy.max_tokens)),
        )
        if model.pool is not None:
            seat = line.seat() if line.waiting else None
            if seat is None:  # nobody can join: the pool that has rows steps
                seat = next((each for each in line.seats if not each.taken and each.pool.is_due(now)), None)
                if seat is None:
                    return None
                window = []
            else:
                window = [job for job in window if seat.fits(job)]
                share = -(-(line.live + len(line.waiting)) // min(model.policy.spread, line.pools)) - seat.pool.rows
                policy = replace(policy, max_rows=max(1, min(seat.pool.room, share, policy.max_rows)), spread=1)
        planned = plan_batch(window, policy, now, line.least_seconds, elsewhere=line.running_rows)
        if planned.dropped:
            self._take_out(line, planned.dropped)
            dropped += [(model, job) for job in planned.dropped]
        if planned.batch is not None:
            self._take_out(line, planned.batch.rows)
        elif seat is None or not seat.pool.rows:
            return None
        if seat is not None:
            seat.taken = True
            if planned.batch is not None:
                seat.group = planned.batch.rows[0].group
        expected = line.cost.seconds(planned.batch.tokens) if planned.batch is not None else 0.0
        if seat is not None:
            expected += line.steps.seconds(seat.pool.rows + len(planned.batch.rows if planned.batch else ()))
        if not line.running:
            line.began = now
        line.running += 1
        line.expected = expected
        line.served += expected
        self.running += 1
        if self.running > 1 or self.rows:
            self._crowded = now
        wide = now - self._crowded > _CALM_SECONDS and (seat is None or line.live <= 1)
        work = Work(model, planned.batch, seat.pool if seat else None, wide, expected)
        line.running_rows += len(work.rows)
        return work

    def _take_out(self, line: Line, jobs: Sequence[Job]) -> None:
        """Let rows wait no longer."""
        for job in jobs:
            del line.waiting[job.ticket]
        line.waiting_places -= sum(places(job.shape) for job in jobs)
        self.rows -= len(jobs)
        self._settle(line)

    def _settle(self, line: Line) -> None:
        """Note whether a line has work."""
        if line.is_busy:
            self._busy[line.model] = line
        else:
            self._busy.pop(line.model, None)
