"""Rows that wait, by model, the worker time that each model has had, and the learned cost of its rows.

Not thread-safe: the workers hold one lock around a scheduler. The cost of a call here grows neither with the number of
models nor with the number of rows that wait.
"""

import math
import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import islice

from limelight_service.engine.jobs import Job
from limelight_service.engine.model import PATIENCE, Model, StepRunner
from limelight_service.engine.scheduling.cost import LearnedCost, LearnedMean
from limelight_service.engine.scheduling.plan import Batch, joined, plan_batch
from limelight_service.engine.shapes import extent, places, union

# Two callers who take turns are served best by a worker each, though one of them is alone now and then.
_CALM_SECONDS = 0.05
_TYPICAL_STEPS = 16.0
# While other workers are busy, a batch that is smaller than usual waits for more rows: half as long as one more row
# would save, and no longer than this.
_LONGEST_WAIT = 0.002
# Seconds of a step from which two continuous batches do no less than one: below, much of a step holds the interpreter's
# lock, which the other batch needs as well, and the event loop to send the tokens. 16 rows of small Transformers, steps
# of 5 ms: 8 to 20 % more tokens in one batch, and the first token of a newcomer after 12 ms instead of 18; steps of
# 12 ms: the same; of 34 ms: as many tokens, and 91 to 123 ms instead of 67 to 81.
_LONG_STEP = 1e-2
# The batch after the one that computes is put together when this part of its time is over: later, it would not be ready
# in time; sooner, it would be smaller.
_AHEAD = 0.5
# After memory ran out, each batch lets the next be so much larger: twice as large after 70.
_GROWTH = 1.01


@dataclass(frozen=True)
class Work:
    """A unit of work that a worker takes from the scheduler.

    Attributes:
        batch: rows to run, or that join the continuous batch; None for a decode step without new rows.
        continuous_batch: whose step is run; None for a model that answers in one pass.
        wide: nothing else runs or waits, nor did a moment ago, so that the work may have every core.
        expected: seconds that the model is charged until the true ones are known.
    """

    model: Model
    batch: Batch[Job] | None
    continuous_batch: StepRunner | None
    wide: bool
    expected: float

    @property
    def rows(self) -> tuple[Job, ...]:
        """The rows that start with it."""
        return self.batch.rows if self.batch else ()


@dataclass(eq=False)
class DecodeGroup:
    """A continuous batch of a generating model: the group that its rows have in common, and whether a worker has it."""

    batch: StepRunner
    group: Hashable = None
    taken: bool = False

    def fits(self, job: Job) -> bool:
        """Tell whether a row may share steps with the rows of the batch."""
        return not self.batch.rows or self.group == job.group


@dataclass(eq=False)
class ModelQueue:
    """The queue of one model: rows that wait, their learned cost, and what may start when.

    Attributes:
        waiting: rows by ticket, oldest first. waiting_places: of all of them.
        running: batches and steps that workers have taken; running_rows: that began with them.
        served: seconds of workers that the model has had.
        cost: of a batch, by places; of a generating model, of the rows that join.
        batch_rows: of its batches.
        steps: of a generating model, the cost of a step by the rows that take it.
        pace: seconds from one step of a row to its next, by all rows that generate: waiting for workers and readers
            included.
        row_steps: steps until a row has ended.
        groups: its continuous batches.
        most: places in a batch that there seems to be memory for; None while memory never ran out.
        began, expected: of the batch that computes where batches are staged, since when (None for since now) and how
            long.
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
    groups: list[DecodeGroup] = field(default_factory=list)
    most: float | None = None
    began: float | None = None
    expected: float = 0.0

    def __post_init__(self) -> None:
        first = self.model.first_run
        self.cost.prior, self.steps.prior = first.place or self.cost.prior, first.step or self.steps.prior

    @property
    def live(self) -> int:
        """Rows that generate."""
        return sum(group.batch.rows for group in self.groups)

    @property
    def is_busy(self) -> bool:
        """True where something waits or runs."""
        return bool(self.waiting or self.running or any(group.batch.rows for group in self.groups))

    @property
    def wanted_groups(self) -> int:
        """Number of continuous batches for its rows: several where a step is long enough to gain by it."""
        policy, rows = self.model.policy, self.live + len(self.waiting)
        worth = rows > policy.max_rows or self.steps.seconds(rows) > _LONG_STEP
        return policy.concurrent if worth else 1

    @property
    def oldest(self) -> int:
        """The ticket of the oldest row; rows that generate count as older than any."""
        return next(iter(self.waiting)) if self.waiting and not self.live else -1

    @property
    def backlog(self) -> float:
        """Estimate the worker seconds of all rows that wait, and of those that generate."""
        seconds = self.cost.seconds(self.waiting_places) if self.waiting else 0.0
        if self.model.continuous_batch is not None:
            seconds += self.row_steps.value * self.steps.seconds(self.live + len(self.waiting)) / 2
        return seconds

    def is_ready(self, now: float) -> bool:
        """Tell whether a worker could start something now, unless every row that waits turns out to be late."""
        if self.model.continuous_batch is None:
            return bool(self.waiting) and self.running < self.model.policy.concurrent
        return any(not group.taken and group.batch.is_due(now) for group in self.groups) or bool(
            self.waiting and self.group_to_join()
        )

    def group_to_join(self) -> DecodeGroup | None:
        """Give the continuous batch that the oldest row may join now.

        Of the fullest ones, as many as there should be, the emptiest that no worker has; a new one where there may be
        more.
        """
        oldest = next(iter(self.waiting.values()))
        wanted, fitting = self.wanted_groups, [each for each in self.groups if each.batch.room and each.fits(oldest)]
        fullest = sorted(fitting, key=lambda group: group.batch.rows, reverse=True)[:wanted]
        best = min((group for group in fullest if not group.taken), key=lambda group: group.batch.rows, default=None)
        make = self.model.continuous_batch
        most = wanted if fitting else self.model.policy.concurrent
        if make is not None and (best is None or best.batch.rows) and len(self.groups) < most:
            best = DecodeGroup(make())
            self.groups.append(best)
        return best

    def fills_until(self) -> float:
        """Tell until when a batch waits for more rows, on the clock of `time.monotonic`; 0 where it does not wait."""
        usual = min(round(self.batch_rows.value), self.model.policy.max_rows)
        if self.model.continuous_batch is not None or len(self.waiting) >= usual:
            return 0.0
        return next(iter(self.waiting.values())).admitted / 1e9 + min(_LONGEST_WAIT, self.cost.fixed / 2)

    def staged_until(self, now: float) -> float:
        """Tell until when the batch after the one that computes may grow; 0 where batches are not staged."""
        policy = self.model.policy
        if not (policy.staged and self.running) or self.model.continuous_batch is not None:
            return 0.0
        if len(self.waiting) >= policy.max_rows:
            return 0.0
        if self.began is None:
            self.began = now
        return self.began + _AHEAD * self.expected

    def window(self) -> list[Job]:
        """Give the oldest rows that wait."""
        return list(islice(self.waiting.values(), self.model.policy.window))

    def out_of_memory(self, jobs: Sequence[Job]) -> None:
        """Take account of a batch that memory was too short for: the next ones are half as large at most."""
        tried = extent(reduce(union, (job.shape for job in jobs)), len(jobs))
        self.most = max(1.0, min(tried / 2, self.most or math.inf))

    def unfilled(self, work: Work, joining: float, rows: int, stepping: float) -> float:
        """Give the seconds of finished work that batches as large as they may be would have saved.

        Each row would bring its part of what a batch costs whatever its size.
        """
        policy, saved = self.model.policy, 0.0
        if work.rows and work.continuous_batch is None:
            places_of_most = min(policy.max_tokens, self.most or math.inf)
            most = max(1.0, min(policy.max_rows, places_of_most / max(1.0, self.row_places.value)))
            saved = min(joining, self.cost.fixed) * max(0.0, 1.0 - len(work.rows) / most)
        if rows:
            saved += min(stepping, self.steps.fixed) * max(0.0, 1.0 - rows / policy.max_rows)
        return saved

    def grow(self) -> None:
        """Let the next batch be a little larger, where memory was short once: others may have had it."""
        if self.most is not None:
            self.most *= _GROWTH
            if self.most >= self.model.policy.max_tokens:
                self.most = None


class Scheduler:
    """Chooses the next work of each worker, fairly between models.

    Attributes:
        rows: number of rows that wait.
        running: batches and steps that workers have taken.
        due: when a worker that was given nothing asks again, on the clock of `time.monotonic`; None for not before
            something changes.
        unfilled: seconds of workers so far that full batches would have saved.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.due: float | None = None
        self._crowded = -math.inf
        self._queues: dict[Model, ModelQueue] = {}
        self._busy: dict[Model, ModelQueue] = {}
        self.running = 0
        self.rows = 0
        self.unfilled = 0.0
        self._busy_seconds = 0.0  # less the begin of each run under way

    @property
    def busy(self) -> list[Model]:
        """Models of which rows wait or run."""
        return list(self._busy)

    def waiting(self) -> dict[str, int]:
        """Count the rows that wait, by the name of their model."""
        found: dict[str, int] = {}
        for model, queue in self._queues.items():
            found[model.name] = found.get(model.name, 0) + len(queue.waiting)
        return found

    def is_ready(self, now: float) -> bool:
        """Tell whether a worker could start something now."""
        return any(queue.is_ready(now) for queue in self._busy.values())

    def add(self, model: Model, jobs: Sequence[Job]) -> None:
        """Let rows wait."""
        queue = self._queues.get(model)
        if queue is None:
            queue = self._queues[model] = ModelQueue(model)
        if model not in self._busy:
            queue.served = joined(queue.served, [each.served for each in self._busy.values()])
            self._busy[model] = queue
        for job in jobs:
            queue.waiting[job.ticket] = job
            own = places(job.shape)
            queue.waiting_places += own
            queue.row_places.learn(own)
        self.rows += len(jobs)

    def remove(self, model: Model, jobs: Iterable[Job]) -> int:
        """Take out rows that still wait. Returns their number."""
        queue = self._queues.get(model)
        if queue is None:
            return 0
        removed = [job for job in jobs if job.ticket in queue.waiting]
        self._take_out(queue, removed)
        return len(removed)

    def forget(self, model: Model) -> bool:
        """Forget a model, unless rows of it wait or run. Returns True where nothing of the model is left."""
        queue = self._queues.get(model)
        if queue is not None and not queue.is_busy:
            del self._queues[model]
        return model not in self._queues

    def take(self, now: float) -> tuple[Work | None, list[tuple[Model, Job]]]:
        """Take one worker's next work, of the model that has had least; and the rows that need no answer any more."""
        dropped: list[tuple[Model, Job]] = []
        self.due = None
        while ready := [each for each in self._busy.values() if each.is_ready(now) and not self._waits(each, now)]:
            queue = min(ready, key=lambda each: (each.served, each.oldest))
            work = self._take(queue, now, dropped)
            if work is not None:
                return work, dropped
            self._settle(queue)
        if any(queue.live for queue in self._busy.values()):  # whose continuous batches may hold rows back
            self.due = min(now + PATIENCE, self.due or math.inf)
        return None, dropped

    def out_of_memory(self, model: Model, jobs: Sequence[Job]) -> None:
        """Take account of a batch that memory was too short for."""
        self._queues[model].out_of_memory(jobs)

    def finished(
        self,
        work: Work,
        joining: float,
        rows: int = 0,
        stepping: float = 0.0,
        ended: Sequence[int] = (),
        cut: Sequence[int] = (),
    ) -> None:
        """Charge a model the seconds of finished work, and learn the cost of its rows from them.

        Args:
            joining: seconds for the rows that started.
            rows: of the continuous batch, that took a step.
            stepping: seconds of that step.
            ended: steps of each row that the step ended.
            cut: steps of each row that left before its end.
        """
        queue = self._queues[work.model]
        queue.running -= 1
        queue.running_rows -= len(work.rows)
        queue.began = None
        self.running -= 1
        self._busy_seconds += time.monotonic()
        self.unfilled += queue.unfilled(work, joining, rows, stepping)
        queue.served += joining + stepping - work.expected
        for group in queue.groups:
            if group.batch is work.continuous_batch:
                group.taken = False
        # Where only short answers are in time, the others still show that answers are no shorter than was thought.
        for steps in (*ended, *(max(steps, queue.row_steps.value) for steps in cut)):
            queue.row_steps.learn(steps)
        if work.batch is not None and work.continuous_batch is None:
            queue.batch_rows.learn(len(work.rows))
            queue.grow()
        # A batch on every core tells nothing of the time that it takes on one, but it is better than no figure.
        if work.batch is not None and not (work.wide and queue.cost.is_known):
            queue.cost.learn(work.batch.tokens, joining)
        if rows and not (work.wide and queue.steps.is_known):
            queue.steps.learn(rows, stepping)
            if work.continuous_batch is not None:
                queue.pace.learn(max(rows, queue.live), work.continuous_batch.pace)
        self._settle(queue)

    def expected_seconds(self, model: Model, rows: int, token_seconds: float = 0.0) -> float:
        """Estimate how long from now so many more rows of a model take until the last is answered.

        Args:
            token_seconds: between two tokens of a stream, at least, whatever workers take.

        Returns:
            0 while a worker is free and nothing waits: then nothing speaks against trying.
        """
        queue = self._queues.get(model)
        if queue is None or (self.running < self._workers and not self.rows):
            return 0.0
        if model.continuous_batch is not None:
            return self._expected_generation(queue, rows, token_seconds)
        ahead = queue.cost.seconds(queue.waiting_places + rows * queue.row_places.value)
        ahead += max(0, len(queue.waiting) + rows - 1) * queue.cost.seconds(0)
        # Other models get as much of the workers as this one does, as long as they have work.
        shared = ahead + sum(min(ahead, other.backlog) for other in self._busy.values() if other is not queue)
        shared += queue.running * queue.cost.seconds(queue.row_places.value) / 2
        return shared / self._workers

    def busy_seconds(self, now: float) -> float:
        """Give the seconds that workers have been busy, all together, runs under way included."""
        return self._busy_seconds + self.running * now

    def waiting_seconds(self) -> float:
        """Estimate how long one worker alone would take for all rows that wait."""
        return sum(queue.backlog for queue in self._busy.values())

    def _expected_generation(self, queue: ModelQueue, rows: int, token_seconds: float) -> float:
        """Estimate the steps of continuous batches as full as they would be, after the rows that must end first.

        A step takes the time that workers need for it, or the time that it has been taking: where many rows stream
        their tokens, the event loop takes longer to send them.
        """
        batches = queue.model.policy.concurrent
        most = batches * queue.model.policy.max_rows
        wanted = queue.live + len(queue.waiting) + rows
        per_batch = min(wanted, most) / batches
        others = sum(1 for other in self._busy.values() if other is not queue)
        step = max(queue.steps.seconds(per_batch) * (1 + others), token_seconds)
        if queue.pace.is_known:
            step = max(step, queue.pace.seconds(min(wanted, most)))
        return queue.row_steps.value * step * (1 + max(0, wanted - most) / most)

    def _waits(self, queue: ModelQueue, now: float) -> bool:
        """Tell whether a model's next batch still waits for more rows, and note until when."""
        until = max(queue.fills_until(), queue.staged_until(now)) if self.running else 0.0
        if until <= now:
            return False
        self.due = until if self.due is None else min(self.due, until)
        return True

    def _take(self, queue: ModelQueue, now: float, dropped: list[tuple[Model, Job]]) -> Work | None:
        model = queue.model
        group = None
        window = queue.window()
        # Workers that are busy with other models need none of the rows: by the time they are free, more have come.
        others = self.running - queue.running
        policy = replace(
            model.policy,
            spread=max(1, min(model.policy.spread, self._workers - others)),
            max_tokens=min(model.policy.max_tokens, int(queue.most or model.policy.max_tokens)),
        )
        if model.continuous_batch is not None:
            group = queue.group_to_join() if queue.waiting else None
            if group is None:  # nobody can join: a continuous batch that has rows takes a step
                group = next((each for each in queue.groups if not each.taken and each.batch.is_due(now)), None)
                if group is None:
                    return None
                window = []
            else:
                window = [job for job in window if group.fits(job)]
                spread = min(model.policy.spread, queue.wanted_groups)
                share = -(-(queue.live + len(queue.waiting)) // spread) - group.batch.rows
                policy = replace(policy, max_rows=max(1, min(group.batch.room, share, policy.max_rows)), spread=1)
        planned = plan_batch(window, policy, now, elsewhere=queue.running_rows)
        if planned.dropped:
            self._take_out(queue, planned.dropped)
            dropped += [(model, job) for job in planned.dropped]
        if planned.batch is not None:
            self._take_out(queue, planned.batch.rows)
        elif group is None or not group.batch.rows:
            return None
        expected = queue.cost.seconds(planned.batch.tokens) if planned.batch is not None else 0.0
        if group is not None:
            group.taken = True
            if planned.batch is not None:
                group.group = planned.batch.rows[0].group
            expected += queue.steps.seconds(group.batch.rows + len(planned.batch.rows if planned.batch else ()))
        return self._start(queue, now, planned.batch, group, expected)

    def _start(
        self, queue: ModelQueue, now: float, batch: Batch[Job] | None, group: DecodeGroup | None, expected: float
    ) -> Work:
        if not queue.running:
            queue.began = now
        queue.running += 1
        queue.expected = expected
        queue.served += expected
        self.running += 1
        self._busy_seconds -= time.monotonic()
        if self.running > 1 or self.rows:
            self._crowded = now
        wide = now - self._crowded > _CALM_SECONDS and (group is None or queue.live <= 1)
        work = Work(queue.model, batch, group.batch if group else None, wide, expected)
        queue.running_rows += len(work.rows)
        return work

    def _take_out(self, queue: ModelQueue, jobs: Sequence[Job]) -> None:
        """Let rows wait no longer."""
        for job in jobs:
            del queue.waiting[job.ticket]
        queue.waiting_places -= sum(places(job.shape) for job in jobs)
        self.rows -= len(jobs)
        self._settle(queue)

    def _settle(self, queue: ModelQueue) -> None:
        """Note whether a queue has work."""
        if queue.is_busy:
            self._busy[queue.model] = queue
        else:
            self._busy.pop(queue.model, None)
