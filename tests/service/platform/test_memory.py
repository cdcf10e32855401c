"""Memory is given back once nothing was asked for a while, and not before; what the C library keeps is bounded."""

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from limelight_service.platform import memory
from tests.allocated import IS_KNOWN


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


_ALLOCATES = """
import ctypes, threading
from limelight_service.platform.memory import settle_allocation
from tests.allocated import allocated

settle_allocation()
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
library.free(ctypes.c_void_p(library.malloc(24 * 2**20)))
before = allocated().hblks
library.malloc(20 * 2**20)
print(allocated().hblks - before, flush=True)
library.malloc_stats()
"""


@pytest.mark.skipif(not IS_KNOWN, reason="arenas are the GNU C library's")
@pytest.mark.parametrize(
    ("environment", "arenas", "apart"),
    [({}, 2, 1), ({"MALLOC_ARENA_MAX": "6", "MALLOC_MMAP_THRESHOLD_": str(28 * 2**20)}, 6, 0)],
)
def test_threads_share_arenas_and_the_largest_blocks_are_apart_unless_the_environment_says_otherwise(
    environment: dict[str, str], arenas: int, apart: int
) -> None:
    done = _run(_ALLOCATES, environment)
    assert (done.stderr.count("Arena "), int(done.stdout)) == (arenas, apart)


_KEEPS = """
import ctypes, threading
from limelight_service.platform.memory import give_back, settle_allocation
from tests.allocated import allocated

settle_allocation()
library, together = ctypes.CDLL(None), threading.Barrier(6)
library.malloc.restype = ctypes.c_void_p

def answer():
    together.wait()
    library.free(ctypes.c_void_p(library.malloc(8 * 2**20)))
    together.wait()

def answers():
    threads = [threading.Thread(target=answer) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    print(allocated().arena - before)

before = allocated().arena
answers()
give_back()
print(allocated().arena - before)
answers()
"""


@pytest.mark.skipif(not IS_KNOWN, reason="only the GNU C library says what it keeps")
def test_what_every_arena_keeps_for_the_next_answer_is_given_back() -> None:
    kept, given, again = map(int, _run(_KEEPS, {}).stdout.split())
    assert kept > 12 * 2**20  # a block of 8 MiB in each of two arenas, less what was there before
    assert given < 4 * 2**20
    assert again > 12 * 2**20


def _run(program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, cwd=Path(__file__).parents[3], check=True, capture_output=True, text=True, env={**clean, **environment}
    )
