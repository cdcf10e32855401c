"""A place where rows of a generating model may join those that generate already."""

from collections.abc import Hashable
from dataclasses import dataclass

from service.engine.jobs import Job
from service.engine.model import Pool


@dataclass(eq=False)
class Seat:
    """A pool of a generating model, what its rows have in common, and whether a lane has it."""

    pool: Pool
    group: Hashable = None
    taken: bool = False

    def fits(self, job: Job) -> bool:
        """Tell whether a row may take its steps with those that are there."""
        return not self.pool.rows or self.group == job.group
