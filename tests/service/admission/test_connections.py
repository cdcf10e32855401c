"""Calls of many connections: each has its share, waits in its order, and keeps no other connection out."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limelight_service.admission.connections import ConnectionQueues
from limelight_service.errors import QueueFullError
from limelight_service.observability.metrics import Metrics
from tests.service.metered import counted


class Callers:
    """Calls under way. inside: those that are admitted, oldest first, as (connection, number)."""

    def __init__(self, share: int, most: int) -> None:
        self.metrics = Metrics()
        self.queues = ConnectionQueues(share, most, self.metrics)
        self.inside: list[tuple[str, int]] = []
        self.ends: dict[tuple[str, int], asyncio.Event] = {}
        self.tasks: dict[tuple[str, int], asyncio.Task[None]] = {}

    async def begin(self, peer: str, number: int) -> None:
        async def call() -> None:
            connection = self.queues.enter(peer) or await self.queues.wait(peer)
            self.inside.append((peer, number))
            try:
                await end.wait()
            finally:
                self.inside.remove((peer, number))
                self.queues.leave(peer, connection)

        end = self.ends[peer, number] = asyncio.Event()
        self.tasks[peer, number] = asyncio.create_task(call())
        await turns()

    async def end(self, peer: str, number: int) -> None:
        self.ends[peer, number].set()
        await turns()

    async def cancel(self, peer: str, number: int) -> None:
        self.tasks[peer, number].cancel()
        with suppress(asyncio.CancelledError):
            await self.tasks[peer, number]
        await turns()

    def error(self, peer: str, number: int) -> BaseException | None:
        task = self.tasks[peer, number]
        return task.exception() if task.done() and not task.cancelled() else None


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # type: ignore[arg-type]


def test_calls_past_a_share_wait_in_their_order_and_other_connections_do_not() -> None:
    async def test() -> None:
        callers = Callers(share=2, most=10)
        for number in range(5):
            await callers.begin("a", number)
        assert callers.inside == [("a", 0), ("a", 1)]
        await callers.begin("b", 0)
        assert callers.inside[-1] == ("b", 0)
        await callers.end("a", 1)
        assert callers.inside == [("a", 0), ("b", 0), ("a", 2)]
        await callers.cancel("a", 3)
        await callers.end("a", 0)
        assert callers.inside == [("b", 0), ("a", 2), ("a", 4)]

    run(test)


def test_the_newest_call_of_the_longest_queue_makes_room_for_one_of_a_shorter() -> None:
    async def test() -> None:
        callers = Callers(share=1, most=3)
        for number in range(4):
            await callers.begin("greedy", number)
        await callers.begin("greedy", 4)
        assert isinstance(callers.error("greedy", 4), QueueFullError)
        for number in range(2):
            await callers.begin("modest", number)
        refused = callers.error("greedy", 3)
        assert isinstance(refused, QueueFullError) and refused.retry_after > 0
        assert callers.inside == [("greedy", 0), ("modest", 0)]
        await callers.end("modest", 0)
        assert callers.inside[-1] == ("modest", 1)
        assert counted(callers.metrics)['limelight_rejected_total{reason="queue_full"}'] == 2

    run(test)


def test_calls_that_are_given_up_at_the_moment_of_their_turn_pass_it_on() -> None:
    async def test() -> None:
        callers = Callers(share=1, most=10)
        for number in range(4):
            await callers.begin("a", number)
        callers.ends["a", 0].set()
        await asyncio.sleep(0)  # the first has ended, and the second has its turn without knowing it
        callers.tasks["a", 1].cancel()
        callers.tasks["a", 2].cancel()
        await turns()
        assert callers.inside == [("a", 3)]
        await callers.end("a", 3)
        assert callers.queues.waiting == 0

    run(test)


@settings(max_examples=50)
@given(
    st.integers(1, 3),
    st.integers(1, 6),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("+-x")), max_size=60),
)
def test_whatever_comes_ends_and_is_given_up_no_place_is_lost(
    share: int, most: int, happens: list[tuple[str, str]]
) -> None:
    async def test() -> None:
        callers = Callers(share, most)
        for number, (peer, what) in enumerate(happens):
            open_calls = [each for each, task in callers.tasks.items() if each[0] == peer and not task.done()]
            if what == "+":
                await callers.begin(peer, number)
            elif what == "-" and open_calls:
                await callers.end(*open_calls[0])
            elif open_calls:
                await callers.cancel(*open_calls[-1])
            inside = {each: sum(who == each for who, _ in callers.inside) for each in "abc"}
            waiting = sum(not task.done() for task in callers.tasks.values()) - len(callers.inside)
            assert max(inside.values()) <= share
            assert callers.queues.waiting == waiting <= most
        for key, task in callers.tasks.items():
            if not task.done():
                await callers.end(*key)
        await turns()
        for number in range(share):
            await callers.begin("a", 1000 + number)
        assert len(callers.inside) == share

    run(test)


def test_what_is_refused_is_told_how_many_wait() -> None:
    async def test() -> None:
        callers = Callers(share=1, most=1)
        for number in range(3):
            await callers.begin("a", number)
        error = callers.error("a", 2)
        assert error is not None
        with pytest.raises(QueueFullError, match="1 calls wait already"):
            raise error

    run(test)
