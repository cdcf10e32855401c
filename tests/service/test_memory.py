"""Memory is given back once nothing was asked for a while, and not before."""

import asyncio
import resource

import pytest

from service import memory


def test_it_is_given_back_once_after_each_time_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    shrunk: list[int] = []
    asked = 0
    monkeypatch.setattr(memory, "give_back", lambda: given.append(asked))

    async def test() -> None:
        nonlocal asked
        task = asyncio.create_task(memory.give_back_when_quiet(lambda: asked, lambda: shrunk.append(asked), quiet=0.02))
        await asyncio.sleep(0.1)
        assert given == []  # nothing was asked yet
        for _ in range(2):
            asked += 1
            for _ in range(500):
                if given[-1:] == [asked]:
                    break
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
        task.cancel()

    asyncio.run(test())
    assert given == shrunk == [1, 2]


def test_giving_back_fails_nowhere() -> None:
    memory.give_back()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
