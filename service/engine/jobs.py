"""A row on its way through the engine, and the call that it belongs to."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from bundle.errors import LimelightError
from bundle.rows import Row
from service.engine.shapes import Shape
from service.engine.types import Answer, Query, Step

Event = Step | Answer | LimelightError


@dataclass(eq=False)
class AdmittedCall:
    """A query that was admitted. The loop sets `abandoned`; lanes read it.

    receive: takes what happens to row i, on the loop; an Answer or an error is the last of a row. steps: whether
    tokens are told one by one.
    """

    query: Query
    receive: Callable[[int, Event], None]
    steps: bool = False
    abandoned: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One row, as the plan sees it and as a lane runs it.

    seed: what it draws at random from; None where nothing is drawn. admitted: nanoseconds on the clock of
    `time.monotonic_ns`.
    """

    ticket: int
    call: AdmittedCall = field(repr=False)
    index: int
    row: Row = field(repr=False)
    seed: int | None
    shape: Shape
    group: Hashable
    deadline: float
    admitted: int

    @property
    def abandoned(self) -> bool:
        """True once nobody waits for it."""
        return self.call.abandoned


# A row, and what happened to it.
RowEvent = tuple[Job, Event]
