"""Rows that wait, by model, and what each model has had of the lanes. Not thread-safe: the lanes hold one lock around
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from service.engine.jobs import Job
from service.engine.model import Model
from service.engine.plan import Batch, LinearCost, ModelQueue, joined, plan_batches
from service.engine.shapes import places

# How much the newest batch counts in the learned time a place takes.
_NEWEST = 0.1


@dataclass(eq=False)
class _Line:
    """The queue of one model."""

    model: Model
    waiting: dict[int, Job] = field(default_factory=dict)
    running: int = 0
    served: float = 0.0
    cost: LinearCost = field(default_factory=LinearCost)


@dataclass(frozen=True)
class Started:
    """A batch that a lane has taken. wide: nothing else runs or waits, so that it may have every core."""

    model: Model
    batch: Batch[Job]
    wide: bool


class RowQueue:
    """All rows that wait for a lane."""

    def __init__(self) -> None:
        self._lines: dict[Model, _Line] = {}
        self._running = 0
        self.rows = 0

    def add(self, model: Model, jobs: Sequence[Job]) -> None:
        """Let rows wait."""
        line = self._lines.setdefault(model, _Line(model))
        if not line.waiting and not line.running:
            line.served = joined(
                line.served, [each.served for each in self._lines.values() if each.waiting or each.running]
            )
        line.waiting.update((job.ticket, job) for job in jobs)
        self.rows += len(jobs)

    def remove(self, model: Model, jobs: Sequence[Job]) -> int:
        """Take rows out again that still wait; gives how many did."""
        line = self._lines.get(model)
        if line is None:
            return 0
        removed = sum(line.waiting.pop(job.ticket, None) is not None for job in jobs)
        self.rows -= removed
        return removed

    def take(self, now: float) -> tuple[Started | None, list[tuple[Model, Job]]]:
        """Take the next batch for one lane, and the rows that need no answer any more."""
        busy = {str(id(line)): line for line in self._lines.values() if line.waiting}
        queues = [
            ModelQueue(key, tuple(line.waiting.values()), line.model.policy, line.cost, line.served, line.running)
            for key, line in busy.items()
        ]
        planned = plan_batches(queues, now, idle=1)
        dropped = []
        if planned.dropped:
            gone = {job.ticket for job in planned.dropped}
            for line in busy.values():
                dropped += [(line.model, line.waiting.pop(ticket)) for ticket in gone & line.waiting.keys()]
        self.rows -= len(dropped)
        if not planned.batches:
            return None, dropped
        (batch,) = planned.batches
        line = busy[batch.model]
        for job in batch.rows:
            del line.waiting[job.ticket]
        self.rows -= len(batch.rows)
        line.running += 1
        line.served += batch.seconds
        self._running += 1
        return Started(line.model, batch, wide=self._running == 1 and not self.rows), dropped

    def finished(self, started: Started, seconds: float) -> None:
        """Take account of a batch that ran: charge its model what it really took, and learn from it what a place
        costs.
        """
        line, batch = self._lines[started.model], started.batch
        line.running -= 1
        self._running -= 1
        line.served += seconds - batch.seconds
        measured = seconds / max(1, batch.tokens)
        line.cost = LinearCost(line.cost.seconds_per_token + _NEWEST * (measured - line.cost.seconds_per_token))

    def expected_seconds(self) -> float:
        """Expect how long one lane alone would take for all that waits."""
        return sum(
            line.cost.seconds(1, places(job.shape)) for line in self._lines.values() for job in line.waiting.values()
        )
