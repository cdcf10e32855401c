"""Settings of the C allocator: it keeps some freed memory under load, and little when idle."""

import asyncio
import contextlib
import ctypes
import gc
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_QUIET_SECONDS = 5.0
_ARENAS = "MALLOC_ARENA_MAX"
_KEPT_AT_THE_END = "MALLOC_TRIM_THRESHOLD_"
# What the GNU C library can be told: by a variable before a process starts, by a number (malloc.h) afterwards.
_ALLOCATION = {_ARENAS: (-8, 2), "MALLOC_MMAP_THRESHOLD_": (-3, 16 * 2**20), _KEPT_AT_THE_END: (-1, 32 * 2**20)}
_BLOCK = 2**20  # that is freed makes the library look at the end of its arena


def settle_allocation() -> None:
    """Tell the C library how to keep memory, in this process and in those that it starts. What the environment says of
    it counts; does nothing where the library is another.

    All threads share two arenas, where each would have its own, up to eight a core: 120,000 fuzzed calls took a server
    on two cores from 70 to 82 MiB, and from 66 to 69 with two.

    Answers are large blocks, each there twice for a moment, and a fresh page costs about as much as to copy it. So
    blocks of less than 16 MiB are taken from what was freed before, of which each arena keeps up to 32 MiB at its end:
    16 callers of all maps of 128 tokens (4.7 MB) were answered 17 % more often than with blocks of 1 MiB and more
    returned each time. `give_back` returns it.
    """
    for variable, (parameter, value) in _ALLOCATION.items():
        if variable not in os.environ:
            os.environ[variable] = str(value)
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).mallopt(parameter, value)


def give_back() -> None:
    """Have the C library return what is free. Does nothing where the library cannot.

    `malloc_trim` leaves what is free at the end of an arena, the first one apart: there the library looks when a large
    block is freed. Threads that live at the same time are given one arena after another.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_void_p
        library.malloc_trim(0)
        parameter, kept = _ALLOCATION[_KEPT_AT_THE_END]
        library.mallopt(parameter, _BLOCK)
        count = 2 * int(os.environ.get(_ARENAS, _ALLOCATION[_ARENAS][1]))
        together = threading.Barrier(count)

        def look(_: int) -> None:
            together.wait()
            library.free(ctypes.c_void_p(library.malloc(2 * _BLOCK)))

        with ThreadPoolExecutor(count) as threads:
            list(threads.map(look, range(count)))
        library.mallopt(parameter, int(os.environ.get(_KEPT_AT_THE_END, kept)))


async def give_back_when_quiet(
    admitted: Callable[[], int], shrink: Callable[[], None], *, quiet: float = _QUIET_SECONDS
) -> None:
    """Give memory back whenever nothing was asked for so many seconds, after something was; ends when cancelled.

    admitted: counts what was asked for so far. shrink: frees what is freed by asking somebody; it runs in a thread.
    """

    def all_of_it() -> None:
        gc.collect()  # a model that was taken out may wait for it
        shrink()
        give_back()

    given = seen = admitted()
    while True:
        await asyncio.sleep(quiet)
        before, seen = seen, admitted()
        if seen == before and seen != given:
            await asyncio.to_thread(all_of_it)
            given = seen
