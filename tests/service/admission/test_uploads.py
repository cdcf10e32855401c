"""Places for messages that arrive, with contexts whose messages come when a test says so."""

import asyncio
import socket
import time

import grpc
import pytest

from limelight_service.admission.uploads import UploadLimiter, UploadSlots
from limelight_service.errors import DeadlineError, QueueFullError
from limelight_service.observability.metrics import Metrics


class Context:
    """A call whose message comes once it is told to."""

    def __init__(self) -> None:
        self.coming: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.asked = False
        self.ended: Exception | None = None

    async def read(self) -> bytes:
        self.asked = True
        return await self.coming

    async def end(self, error: Exception) -> None:
        self.ended = error
        self.coming.set_exception(grpc.aio.AbortError())


async def meanwhile() -> None:
    """Let everything happen that waits for nothing else."""
    for _ in range(5):
        await asyncio.sleep(0)


def limiter(quick: int, slow: int, seconds: float = 60.0) -> UploadLimiter:
    return UploadLimiter(UploadSlots(quick, slow), seconds, Metrics())


async def place_is_free(one: UploadLimiter) -> None:
    """Wait until the quick place is free again, which a message that takes longer leaves."""
    quick = Context()
    quick.coming.set_result(b"quick")
    assert await one.message(quick, quick.end) == b"quick"


def test_no_message_is_asked_for_without_a_place_and_the_newest_is_next() -> None:
    async def run() -> None:
        one = limiter(quick=1, slow=3)
        contexts = [Context() for _ in range(3)]
        calls = [asyncio.create_task(one.message(each, each.end)) for each in contexts]
        await meanwhile()
        assert [each.asked for each in contexts] == [True, False, False]
        contexts[0].coming.set_result(b"first")
        assert await calls[0] == b"first"
        await meanwhile()
        assert [each.asked for each in contexts] == [True, False, True]
        calls[1].cancel()  # who gives up while it waits takes no place along
        contexts[2].coming.set_result(b"third")
        assert await calls[2] == b"third"
        last = Context()
        last.coming.set_result(b"last")
        assert await one.message(last, last.end) == b"last"

    asyncio.run(run())


def test_who_takes_longer_moves_and_where_there_is_no_room_has_to_come_back() -> None:
    async def run() -> None:
        one = limiter(quick=1, slow=1)
        slow, slower, next_ = Context(), Context(), Context()
        calls = [asyncio.create_task(one.message(each, each.end)) for each in (slow, slower, next_)]
        with pytest.raises(grpc.aio.AbortError):
            await calls[2]
        with pytest.raises(grpc.aio.AbortError):
            await calls[1]
        assert isinstance(slower.ended, QueueFullError) and isinstance(next_.ended, QueueFullError)
        slow.coming.set_result(b"at last")
        assert await calls[0] == b"at last" and slow.ended is None

    asyncio.run(run())


def test_nothing_wakes_the_process_once_every_message_is_there() -> None:
    async def run() -> bool:
        one = limiter(quick=2, slow=2)
        context = Context()
        call = asyncio.create_task(one.message(context, context.end))
        await meanwhile()
        context.coming.set_result(b"all of it")
        await call
        scheduled = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        return any(not each.cancelled() for each in scheduled)

    assert not asyncio.run(run())


def test_who_takes_too_long_is_ended() -> None:
    async def run() -> None:
        one, context = limiter(quick=1, slow=1, seconds=0.1), Context()
        with pytest.raises(grpc.aio.AbortError):
            await one.message(context, context.end)
        assert isinstance(context.ended, DeadlineError)

    asyncio.run(run())


def test_what_came_while_the_event_loop_was_late_counts_as_there() -> None:
    async def run() -> None:
        one, standing, context = limiter(quick=1, slow=1), Context(), Context()
        stands = asyncio.create_task(one.message(standing, standing.end))
        await place_is_free(one)
        near, far = socket.socketpair()
        loop = asyncio.get_running_loop()
        loop.add_reader(near, lambda: context.coming.done() or context.coming.set_result(near.recv(4)))
        call = asyncio.create_task(one.message(context, context.end))
        await asyncio.sleep(0)
        far.send(b"here")
        time.sleep(0.1)
        assert await call == b"here" and context.ended is None
        standing.coming.set_result(b"")
        assert await stands == b""
        loop.remove_reader(near)
        near.close()
        far.close()

    asyncio.run(run())


def test_who_waits_for_a_busy_event_loop_is_not_taken_for_slow() -> None:
    async def run() -> None:
        one, standing, context = limiter(quick=1, slow=1), Context(), Context()
        stands = asyncio.create_task(one.message(standing, standing.end))
        await place_is_free(one)
        call = asyncio.create_task(one.message(context, context.end))
        for _ in range(8):  # turns in which the loop has other things to do
            time.sleep(0.03)
            await asyncio.sleep(0)
        context.coming.set_result(b"here")
        assert await call == b"here" and context.ended is None
        standing.coming.set_result(b"")
        assert await stands == b""

    asyncio.run(run())
