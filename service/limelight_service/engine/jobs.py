"""A row on its way through the engine, and the call that it belongs to."""

import logging
from asyncio import TimerHandle
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from limelight_bundle.errors import LimelightError
from limelight_bundle.rows import Row
from limelight_service.engine.out_of_memory import is_out_of_memory, memory_short_error
from limelight_service.engine.shapes import Shape
from limelight_service.engine.types import Answer, Query, Step
from limelight_service.errors import DeadlineError, InferenceError

logger = logging.getLogger(__name__)

# An event of a row, as runners give them. An answer or an error is the last.
Event = Step | Answer | LimelightError


@dataclass(frozen=True, slots=True)
class Delivered:
    """A value that a call made of a token or an answer of one of its rows. last: of the row's."""

    value: Any
    last: bool


# What the event loop receives of a row. An error is its last.
Outcome = Delivered | LimelightError


@dataclass(eq=False)
class AdmittedCall:
    """A query on its way. The event loop sets `abandoned`; workers read it.

    Attributes:
        receive: takes an outcome of row i, on the loop.
        finish: makes the delivered value of row i's answer. tell: the same of a token; None where tokens are not
            delivered one by one. Both run on the worker, so that large arrays end there and nothing is built on the
            loop.
        on_end: called on the loop once nothing of the call is left in the engine.
        generated: tokens so far, which the worker counts. sent: of those, which the loop counts.
        open: rows that have not ended; the loop counts them.
        jobs: its rows, while the engine has it. timer: of its deadline.
    """

    query: Query
    receive: Callable[[int, Outcome], None]
    finish: Callable[[int, Answer], Any]
    tell: Callable[[Step], Any] | None = None
    on_end: Callable[[], None] | None = None
    abandoned: bool = False
    generated: int = 0
    sent: int = 0
    open: int = 0
    jobs: Sequence["Job"] = field(default=(), repr=False)
    timer: TimerHandle | None = None

    @property
    def unsent(self) -> int:
        """Tokens that wait for their reader."""
        return 0 if self.abandoned else self.generated - self.sent


def detached_call(query: Query, tell: Callable[[Step], Any] | None = None) -> AdmittedCall:
    """Make a call for a runner without workers: the events come from the runner, and the call receives nothing."""
    return AdmittedCall(query, lambda index, outcome: None, lambda index, answer: None, tell)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One row, as the scheduler plans it and as a worker runs it.

    Attributes:
        index: of the row in its call.
        seed: of its random draws; None where nothing is drawn.
        deadline: on the clock of `time.monotonic`. admitted: nanoseconds on that of `time.monotonic_ns`.
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

    def delivered(self, event: Step | Answer) -> Delivered:
        """Make the value that the call wants of an event. Raises what the call's functions raise."""
        if isinstance(event, Answer):
            return Delivered(self.call.finish(self.index, event), last=True)
        assert self.call.tell is not None
        self.call.generated += 1
        return Delivered(self.call.tell(event), last=False)


RowEvent = tuple[Job, Event]


class CutError(DeadlineError):
    """The deadline passed, or the caller left, before the whole answer was generated. steps: that the row took."""

    def __init__(self, steps: int) -> None:
        super().__init__("the deadline passed before the whole answer was generated")
        self.steps = steps


def failure(error: BaseException) -> LimelightError:
    """Make the error that a caller gets for a row that failed, without the words of the runtime or NumPy."""
    if isinstance(error, InferenceError):
        return error
    if is_out_of_memory(error):
        logger.error("the model ran out of memory: %s", error)
        return memory_short_error()
    logger.error("the model failed", exc_info=error)
    return InferenceError("the model failed on this input")
