"""What two processes say to each other arrives as it was said, however a socket cuts it."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.apart.link import End, Kind, Link
from service.apart.region import SIZE, Region

Frame = tuple[Kind, int, Any, bytes]
LARGE = 2**18
sizes = st.one_of(st.integers(0, 100), st.integers(LARGE - 2, LARGE + 5000))
frames = st.lists(
    st.tuples(st.sampled_from(list(Kind)[:-1]), st.integers(0, 2**63), st.none() | st.text() | st.integers(), sizes),
    max_size=8,
)


def bytes_of(size: int) -> bytes:
    return (b"0123456789abcdef" * (size // 16 + 1))[:size]


async def sent(
    wanted: list[Frame], change: Callable[[End], End] = lambda end: end, *, size: int = SIZE
) -> tuple[list[Frame], Link, Link]:
    """Send frames from one end of a link to the other; what came, and both ends."""
    came: list[Frame] = []
    arrived = asyncio.Event()

    def receive(*frame: Any) -> None:
        came.append(frame)
        if len(came) == len(wanted):
            arrived.set()

    one, other = End.pair(size)
    begins, ends = await Link.over(change(one), receive), await Link.over(change(other), receive)
    for frame in wanted:
        begins.send(*frame)
    if wanted:
        await asyncio.wait_for(arrived.wait(), 60)
    return came, begins, ends


def exchanged(wanted: list[Frame], change: Callable[[End], End] = lambda end: end) -> list[Frame]:
    """Send frames over a link of their own; what came."""

    async def both() -> list[Frame]:
        came, begins, ends = await sent(wanted, change)
        begins.close()
        ends.close()
        return came

    return asyncio.run(both())


def without_regions(end: End) -> End:
    end.close_regions()
    return End(end.socket, None, None)


@settings(max_examples=60, deadline=None)
@given(frames, st.booleans())
def test_frames_arrive_as_they_were_sent_and_in_order(drawn: list[tuple[Kind, int, Any, int]], shared: bool) -> None:
    wanted = [(kind, call, said, bytes_of(size)) for kind, call, said, size in drawn]
    assert exchanged(wanted, (lambda end: end) if shared else without_regions) == wanted


def test_a_frame_that_nobody_waits_for_goes_with_the_next_or_after_a_moment() -> None:
    async def run() -> list[tuple[int, float]]:
        came: list[tuple[int, float]] = []
        loop = asyncio.get_running_loop()
        one, other = End.pair()
        begins = await Link.over(one, lambda *_: None)
        ends = await Link.over(other, lambda kind, call, said, body: came.append((call, loop.time())))
        begins.send(Kind.ENDED, 1, patient=True)
        await asyncio.sleep(0)
        begins.send(Kind.CALL, 2)
        while len(came) < 2:
            await asyncio.sleep(0.001)
        began = loop.time()
        begins.send(Kind.ENDED, 3, patient=True)
        while len(came) < 3:
            await asyncio.sleep(0.001)
        begins.send(Kind.ENDED, 4, patient=True)
        begins.close()
        while len(came) < 4:
            await asyncio.sleep(0.001)
        ends.close()
        return [(call, at - began) for call, at in came]

    first, second, third, last = asyncio.run(run())

    assert [each for each, _ in (first, second, third, last)] == [1, 2, 3, 4]
    assert third[1] > 0.04


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=6), st.data())
def test_a_frame_may_be_cut_anywhere(lengths: list[int], data: st.DataObject) -> None:
    wanted = [(Kind.MESSAGE, number, f"the {number}th", bytes_of(size)) for number, size in enumerate(lengths)]

    class Written(list[bytes]):
        def write(self, part: bytes) -> None:
            self.append(part)

        def is_closing(self) -> bool:
            return False

    async def cut() -> list[Frame]:
        came: list[Frame] = []
        written: Any = Written()
        sender, receiver = (Link(lambda *frame: came.append(frame), lambda: None, None, None) for _ in range(2))
        sender._transport = written
        for frame in wanted:
            sender.send(*frame)
        await asyncio.sleep(0)
        stream, place = b"".join(written), 0
        while place < len(stream):
            step = data.draw(st.integers(1, 700))
            receiver.data_received(stream[place : place + step])
            place += step
        return came

    assert asyncio.run(cut()) == wanted


def test_what_has_no_room_in_memory_comes_over_the_socket_and_room_is_made_again() -> None:
    wanted = [(Kind.ANSWER, number, None, bytes_of(LARGE)) for number in range(8)]

    async def both() -> tuple[list[Frame], Link]:
        came, begins, ends = await sent(wanted, size=3 * LARGE)
        for _ in range(100):  # until all that was read is known to be
            if begins._written is not None and not begins._written._used:
                break
            await asyncio.sleep(0.05)
        begins.close()
        ends.close()
        return came, begins

    came, begins = asyncio.run(both())
    assert came == wanted
    assert begins._written is not None and not begins._written._used


HUGE = 2**23 + 5  # is copied by a thread


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2), st.sampled_from([0, 7, LARGE, HUGE])), max_size=6))
def test_the_frames_of_a_call_arrive_in_order_whoever_copies_them(drawn: list[tuple[int, int]]) -> None:
    wanted = [(Kind.MESSAGE, call, place, bytes_of(size)) for place, (call, size) in enumerate(drawn)]
    came = exchanged(wanted)
    for call in (1, 2):
        assert [each for each in came if each[1] == call] == [each for each in wanted if each[1] == call]
    assert len(came) == len(wanted)


def test_a_huge_frame_holds_up_no_other_call() -> None:
    wanted = [(Kind.ANSWER, 1, None, bytes_of(HUGE)), (Kind.ANSWER, 2, None, b"small")]
    assert [each[1] for each in exchanged(wanted)] == [2, 1]


@pytest.mark.parametrize("size", [5, HUGE])
def test_where_a_frame_cannot_be_received_the_link_ends(size: int) -> None:
    async def both() -> None:
        lost = asyncio.Event()

        def fail(*_: Any) -> None:
            raise RuntimeError("what receives it is broken")

        one, other = End.pair()
        begins = await Link.over(one, lambda *_: None)
        await Link.over(other, fail, lost.set)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        begins.send(Kind.ANSWER, 1, None, bytes_of(size))
        await asyncio.wait_for(lost.wait(), 60)
        begins.close()

    asyncio.run(both())


pieces = st.lists(st.tuples(st.booleans(), st.integers(0, 40_000)), max_size=40)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system shares no memory by descriptor")
@settings(max_examples=60, deadline=None)
@given(pieces)
def test_pieces_keep_what_is_in_them_until_they_are_freed(steps: list[tuple[bool, int]]) -> None:
    descriptor = Region.create(2**17)
    assert descriptor is not None
    writer, reader = Region(descriptor), Region(descriptor)
    os.close(descriptor)
    kept: dict[int, bytes] = {}
    for number, (frees, size) in enumerate(steps):
        if frees and kept:
            place = list(kept)[size % len(kept)]
            writer.free(place)
            del kept[place]
        else:
            data = bytes([number % 256]) * max(1, size)
            piece = writer.put(data)
            if piece is not None:
                assert piece.place not in kept
                kept[piece.hand_on()] = data
        writer.trim()
        assert all(reader.get(place, len(data)) == data for place, data in kept.items())
    for place in kept:
        writer.free(place)
    whole = writer.take(2**17)
    assert whole is not None and whole.place == 0 and writer.take(1) is None
    del whole  # nobody was told of it
    assert writer.take(2**17) is not None
