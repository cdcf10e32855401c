"""Memory is given back once nothing was asked for a while, and not before."""

import asyncio
import platform
import resource
import subprocess
import sys

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


_ARENAS_OF_MANY_THREADS = """
import ctypes, sys, threading
from service.memory import share_arenas

share_arenas(int(sys.argv[1]))
library, together = ctypes.CDLL(None), threading.Barrier(12)
library.malloc.restype = ctypes.c_void_p

def allocate():
    together.wait()
    library.malloc(100_000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(12)]
for each in threads:
    each.start()
for each in threads:
    each.join()
library.malloc_stats()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="arenas are the GNU C library's")
def test_threads_share_the_arenas_that_they_may_have() -> None:
    counts = []
    for most in (2, 6):
        command = [sys.executable, "-c", _ARENAS_OF_MANY_THREADS, str(most)]
        counts.append(subprocess.run(command, check=True, capture_output=True, text=True).stderr.count("Arena "))
    assert counts == [2, 6]
