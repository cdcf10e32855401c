"""Work that is brought to its end even where the task that waits for it is cancelled."""

import asyncio
import types
from collections.abc import Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


@types.coroutine
def shielded(work: Coroutine[Any, Any, T]) -> Generator[Any, None, T]:
    """Wait for work as `asyncio.shield` does, without a task: each call waits so, and few are cancelled.

    Raises: what the work raises; of work that nobody waits for any more, nothing is told.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            awaited = work.send(None)
        except StopIteration as end:
            value: T = end.value
            return value
        done = loop.create_future()
        awaited.add_done_callback(partial(_tell, done))
        try:
            yield from done
        except BaseException:
            awaited.add_done_callback(partial(_go_on, work))
            raise


def _tell(done: "asyncio.Future[None]", _: object) -> None:
    if not done.done():
        done.set_result(None)


def _go_on(work: Coroutine[Any, Any, object], _: object) -> None:
    with suppress(StopIteration, asyncio.CancelledError, Exception):
        work.send(None).add_done_callback(partial(_go_on, work))
