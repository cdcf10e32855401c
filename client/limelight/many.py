"""Calls for any number of instances: split into batches, repeated where that helps, with errors by instance.

Nothing here sends: `answers` yields what is to be sent or waited for, and is given what came of it. Both clients drive
it, the synchronous one by `exchanged`.
"""

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from limelight.base.errors import (
    Cancelled,
    Error,
    FailedPrecondition,
    InputError,
    InvalidArgument,
    NotFound,
    OutOfRange,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from limelight.base.optional import package
from limelight.v1 import values_pb2

Answer = TypeVar("Answer")
Progress: TypeAlias = bool | Callable[[int, int | None], object]
"""True for a bar of tqdm; or a function of the number of finished instances and of all, None if that is unknown."""

BATCH, CONCURRENCY = 32, 4
_BATCH_BYTES = 1024 * 1024
_ATTEMPTS = 8  # of a call that an overloaded server refuses, saying when to come back
_PATIENCE = 3600.0  # seconds of waiting for a call without a timeout
_INSTANCE = re.compile(r"instances\[(\d{1,9})\]")
# Errors of calls and not of instances: the next call would get the same.
_EVERY_CALL = (Cancelled, FailedPrecondition, NotFound, PermissionDenied, Unauthenticated, Unavailable, Unimplemented)

Instance: TypeAlias = values_pb2.Instance | Error
"""An instance, or the reason why it cannot be sent."""
Numbered: TypeAlias = Sequence[tuple[int, values_pb2.Instance]]
Send: TypeAlias = list[values_pb2.Instance]
Exchange: TypeAlias = Generator[Send | float, Any, list[tuple[int, Any]]]


@dataclass
class Course:
    """Measurements of the calls so far."""

    most: int
    """Number of instances of a call; it becomes smaller where the server refuses as many."""
    timeout: float | None = None
    """Seconds of a call; None for no limit."""
    answered: bool = False
    """True once an instance has been answered."""

    @property
    def patience(self) -> float:
        """Seconds that a call waits for a server that refuses it and says when to come back."""
        return _PATIENCE if self.timeout is None else self.timeout

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"batch_size is at least 1, not {self.most}")


def check_concurrency(concurrency: int) -> int:
    """Return a valid number of calls at the same time. Raises ValueError for less than 1."""
    if concurrency < 1:
        raise ValueError(f"concurrency is at least 1, not {concurrency}")
    return concurrency


def check_several(instances: object) -> None:
    """Refuse a single instance, whose letters or names would be taken for instances. Raises TypeError."""
    if isinstance(instances, str | bytes | Mapping):
        raise TypeError(f"several instances are expected, and this is one {type(instances).__name__}: give a list")


def total_of(instances: Any) -> int | None:
    """Return the number of instances; None for an iterator."""
    return len(instances) if isinstance(instances, Sized) else None


class Batcher:
    """Collects instances into batches of at most `course.most`, and of about 1 MiB unless one instance is larger."""

    def __init__(self, course: Course) -> None:
        self._course, self._number = course, 0
        self._batch: list[tuple[int, Instance]] = []
        self._bytes = 0

    def add(self, instance: Instance) -> list[tuple[int, Instance]]:
        """Add the next instance. Returns a batch that is complete without it, or nothing."""
        more, complete = 0 if isinstance(instance, Error) else instance.ByteSize(), list[tuple[int, Instance]]()
        if len(self._batch) >= self._course.most or self._bytes + more > _BATCH_BYTES:
            complete = self.rest()
        self._batch.append((self._number, instance))
        self._number, self._bytes = self._number + 1, self._bytes + more
        return complete

    def rest(self) -> list[tuple[int, Instance]]:
        """Return the instances that are in no batch yet."""
        batch, self._batch, self._bytes = self._batch, [], 0
        return batch


UNSENDABLE = (OSError, TypeError, ValueError)
"""Exceptions of an instance that cannot be sent; InputError is a ValueError."""


def refusal(error: Exception, number: int) -> InputError:
    """Return the error of an instance that cannot be sent."""
    return error if isinstance(error, InputError) else InputError(f"instances[{number}]: {error}")


def answers(batch: Sequence[tuple[int, Instance]], course: Course) -> Generator[Send | float, Any, list[Any]]:
    """Exchange a batch: yields instances to send, or seconds to wait; returns an answer or an Error for each, in order.

    What is sent yields a list of answers, or the Error of the call. A call waits for no longer than its timeout, all
    waits together.

    Raises:
        Error: one that every call would get, such as for an unknown model.
    """
    found: list[tuple[int, Any]] = [(number, each) for number, each in batch if isinstance(each, Error)]
    found += yield from _exchange([(number, each) for number, each in batch if not isinstance(each, Error)], course)
    replies = [each for _, each in sorted(found, key=lambda pair: pair[0])]
    course.answered = course.answered or any(not isinstance(each, Error) for each in replies)
    if not course.answered and len(batch) > 1 and all(_is_of_options(each) for each in replies):
        raise replies[0]
    return replies


def exchanged(batch: Sequence[tuple[int, Instance]], course: Course, send: Callable[[Send], Any]) -> list[Any]:
    """Exchange a batch on this thread; `send` returns answers or the Error of a call. Raises: as `answers`."""
    steps, reply = answers(batch, course), None
    try:
        while True:
            step = steps.send(reply)
            if isinstance(step, list):
                reply = send(step)
            else:
                time.sleep(step)
    except StopIteration as finished:
        found: list[Any] = finished.value
        return found


def _exchange(batch: Numbered, course: Course) -> Exchange:
    if not batch:
        return []
    half = len(batch) // 2
    if len(batch) > course.most:  # the limit was found after the batch was made
        return (yield from _exchange(batch[:half], course)) + (yield from _exchange(batch[half:], course))
    patience = course.patience
    for _ in range(_ATTEMPTS):
        reply = yield [instance for _, instance in batch]
        if not isinstance(reply, Error):
            return [(number, each) for (number, _), each in zip(batch, reply, strict=True)]
        if not isinstance(reply, ResourceExhausted) or reply.retry_after is None or reply.retry_after < 0:
            break
        patience -= reply.retry_after
        if patience < 0:
            return [(number, reply) for number, _ in batch]
        yield reply.retry_after
    else:
        return [(number, reply) for number, _ in batch]
    wrong = _wrong(reply, len(batch))
    if isinstance(reply, _EVERY_CALL):
        raise reply
    if len(batch) == 1:
        return [(batch[0][0], _numbered(reply, 0, batch[0][0]))]
    if wrong:
        refused = [(batch[place][0], _numbered(reply, place, batch[place][0])) for place in wrong]
        return refused + (
            yield from _exchange([each for place, each in enumerate(batch) if place not in wrong], course)
        )
    if isinstance(reply, OutOfRange | ResourceExhausted) and not _is_of_options(reply):
        course.most = max(1, min(course.most, half))
    return (yield from _exchange(batch[:half], course)) + (yield from _exchange(batch[half:], course))


def _wrong(error: Error, count: int) -> list[int]:
    """Return the places of the instances that an error names."""
    places = (_INSTANCE.match(each.field) for each in error.violations)
    return sorted({place for each in places if each and (place := int(each[1])) < count})


def _is_of_options(error: object) -> bool:
    """Return whether an error is of the call's options: an unknown map, or a query that an instance lacks."""
    if not isinstance(error, InvalidArgument | OutOfRange) or error.field is None:
        return False
    return not error.field.startswith("instances")


def _numbered(error: Error, place: int, number: int) -> Error:
    """Return an error whose paths have the number of the instance among all, and not in its call."""
    old, new = f"instances[{place}]", f"instances[{number}]"
    mine = [each for each in error.violations if each.field.startswith(old)] or error.violations
    message = error.message.replace(old, new)
    if len(mine) < len(error.violations):
        message = f"{mine[0].field.replace(old, new)}: {mine[0].description}"
    violations = tuple(type(each)(each.field.replace(old, new), each.description) for each in mine)
    return type(error)(message, code=error.code, violations=violations, retry_after=error.retry_after)


@contextmanager
def counting(progress: Progress, total: int | None) -> Iterator[Callable[[int], object]]:
    """Give a function that is told how many more instances are finished.

    Raises:
        ModuleNotFoundError: a bar is asked for, and tqdm is not installed.
    """
    if progress is True:
        with package("tqdm.auto", "progress=True").tqdm(total=total, unit="instance") as bar:
            yield bar.update
        return
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        if callable(progress):
            progress(done, total)

    yield count
