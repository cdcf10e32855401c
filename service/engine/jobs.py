"""A row on its way through the engine, and the call that it belongs to."""

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from bundle.errors import LimelightError
from bundle.rows import Row
from service.engine.exhausted import is_exhausted, short_of_memory
from service.engine.shapes import Shape
from service.engine.types import Answer, Query, Step
from service.errors import InferenceError

logger = logging.getLogger(__name__)

# What runners tell of a row. An Answer or an error is its last.
Event = Step | Answer | LimelightError


@dataclass(frozen=True, slots=True)
class Told:
    """What a call made of an event of one of its rows."""

    value: Any
    last: bool


# What the loop is told of a row.
News = Told | LimelightError


@dataclass(eq=False)
class AdmittedCall:
    """A query that was admitted. The loop sets `abandoned`; lanes read it.

    open: rows that nothing final was told of; the loop counts them.
    receive: takes the news of row i, on the loop.
    finish: makes of row i's answer what the call wants of it; tell: the same of a token, None where tokens are not told
    one by one. Both run on the lane, so that large arrays end there and nothing is built on the loop.
    told: tokens so far, which the lane counts; sent: those that have gone out, which the loop counts.
    """

    query: Query
    receive: Callable[[int, News], None]
    finish: Callable[[int, Answer], Any]
    tell: Callable[[Step], Any] | None = None
    abandoned: bool = False
    told: int = 0
    sent: int = 0
    open: int = field(init=False)

    def __post_init__(self) -> None:
        self.open = len(self.query.rows)

    @property
    def unsent(self) -> int:
        """Tokens that wait for their stream."""
        return 0 if self.abandoned else self.told - self.sent


def unheard(query: Query, tell: Callable[[Step], Any] | None = None) -> AdmittedCall:
    """Make a call for a runner without lanes: whoever runs it sees the events, and nobody else hears of them."""
    return AdmittedCall(query, lambda index, news: None, lambda index, answer: None, tell)


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

    def told(self, event: Step | Answer) -> Told:
        """Make of what happened what the call wants to be told. Raises what the call's functions raise."""
        if isinstance(event, Answer):
            return Told(self.call.finish(self.index, event), last=True)
        assert self.call.tell is not None
        self.call.told += 1
        return Told(self.call.tell(event), last=False)


# A row, and what happened to it.
RowEvent = tuple[Job, Event]


def failure(error: BaseException) -> LimelightError:
    """Give what the caller is told of a row that failed: never what the runtime or NumPy said."""
    if isinstance(error, InferenceError):
        return error
    if is_exhausted(error):
        logger.error("the model ran out of memory: %s", error)
        return short_of_memory()
    logger.error("the model failed", exc_info=error)
    return InferenceError("the model failed on this input")
