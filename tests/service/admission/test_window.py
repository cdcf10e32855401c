"""Work that is handed to another process at a time is bounded by calls and by bytes."""

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from limelight_service.admission.window import Window


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))  # type: ignore[arg-type]


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_calls_wait_for_room_in_their_order() -> None:
    async def test() -> None:
        window, inside = Window(2, 100), list[int]()

        async def enter(number: int, size: int) -> None:
            await window.enter(size)
            inside.append(number)

        tasks = [asyncio.create_task(enter(*each)) for each in enumerate((60, 30, 20, 1, 500))]
        await turns()
        assert inside == [0, 1]
        window.leave(30)
        await turns()
        assert inside == [0, 1, 2]
        window.leave(60)
        await turns()
        assert inside == [0, 1, 2, 3]
        window.leave(20)
        await turns()
        assert len(inside) == 4  # too large beside another
        window.leave(1)
        await turns()
        assert inside[-1] == 4
        await asyncio.gather(*tasks)

    run(test)


def test_nobody_enters_while_it_is_closed_and_who_gives_up_takes_no_room() -> None:
    async def test() -> None:
        window = Window(1, 100)
        window.set_open(False)
        tasks = [asyncio.create_task(window.enter(1)) for _ in range(3)]
        await turns()
        assert not any(each.done() for each in tasks)
        tasks[0].cancel()
        window.set_open(True)
        tasks[1].cancel()  # at the moment of its turn
        await turns()
        assert tasks[2].done() and not tasks[2].cancelled()

    run(test)


@given(
    st.integers(1, 3), st.integers(1, 50), st.lists(st.tuples(st.integers(0, 60), st.sampled_from("+-x")), max_size=50)
)
def test_whatever_happens_no_more_is_inside_than_fits_and_no_room_is_lost(
    calls: int, size: int, happens: list[tuple[int, str]]
) -> None:
    async def test() -> None:
        window = Window(calls, size)
        entering: list[tuple[int, asyncio.Task[None]]] = []
        inside: list[int] = []

        async def settle() -> None:
            await turns()
            for each in [each for each in entering if each[1].done()]:
                entering.remove(each)
                if not each[1].cancelled():
                    inside.append(each[0])
            assert len(inside) <= calls and (sum(inside) <= size or len(inside) == 1)

        for bytes_, what in happens:
            if what == "+":
                entering.append((bytes_, asyncio.create_task(window.enter(bytes_))))
            elif what == "-" and inside:
                window.leave(inside.pop())
            elif entering:
                entering[len(entering) // 2][1].cancel()
            await settle()
        while inside:
            window.leave(inside.pop())
            await settle()
        assert not entering

    run(test)
