"""Keeps small what the runtime's arenas and the C library hold of memory that was freed."""

import asyncio
import contextlib
import ctypes
from collections.abc import Callable

_QUIET_SECONDS = 5.0
_M_ARENA_MAX = -8  # of the GNU C library's malloc.h


def share_arenas(most: int) -> None:
    """Have the threads of this process share so many of the C library's arenas; those that are there already stay.

    Each thread would have its own, up to eight a core, and each keeps its own gaps: 120,000 fuzzed calls took a server
    on two cores from 70 to 82 MiB, and from 66 to 69 with two arenas. Does nothing where there is no such setting.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, most)


def give_back() -> None:
    """Have the C library return what is free. Does nothing where the library cannot."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def give_back_when_quiet(
    admitted: Callable[[], int], shrink: Callable[[], None], *, quiet: float = _QUIET_SECONDS
) -> None:
    """Give memory back whenever nothing was asked for so many seconds, after something was; ends when cancelled.

    admitted: counts what was asked for so far. shrink: frees what is freed by asking somebody; it runs in a thread.
    """

    def all_of_it() -> None:
        shrink()
        give_back()

    given = seen = admitted()
    while True:
        await asyncio.sleep(quiet)
        before, seen = seen, admitted()
        if seen == before and seen != given:
            await asyncio.to_thread(all_of_it)
            given = seen
