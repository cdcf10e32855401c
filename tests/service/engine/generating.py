"""A generation of an engine, token by token, for tests that have no frontend."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from limelight_service.engine.engine import Engine
from limelight_service.engine.jobs import AdmittedCall, Delivered, Outcome
from limelight_service.engine.model import Model
from limelight_service.engine.types import Answer, Query, Step, Strategy

T = TypeVar("T")


@contextmanager
def generating(
    engine: Engine, model: Model, query: Query, tell: Callable[[Step], T], finish: Callable[[Answer], T]
) -> Iterator[AsyncIterator[T]]:
    """Generate one row for the length of a block: what is made of its tokens as they come, then of its whole answer.

    Asking for the next value says that the one before was sent.
    """
    outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
    beams = query.generation.strategy is Strategy.BEAM
    call = AdmittedCall(
        model.seeded(query),
        lambda _, outcome: outcomes.put_nowait(outcome),
        lambda _, answer: finish(answer),
        None if beams else tell,
    )
    engine.submit(model, call)
    try:
        yield _values(engine, call, outcomes)
    finally:
        engine.end(model, call)


async def _values(engine: Engine, call: AdmittedCall, outcomes: asyncio.Queue[Outcome]) -> AsyncIterator[Any]:
    while True:
        outcome = await outcomes.get()
        if not isinstance(outcome, Delivered):
            try:
                raise outcome
            finally:
                del outcome  # its traceback has this frame
        yield outcome.value
        if outcome.last:
            return
        engine.sent(call)
