"""Gives memory back to the system that the runtime's arenas and the C library keep after it was freed."""

import asyncio
import contextlib
import ctypes
from collections.abc import Callable

_QUIET_SECONDS = 5.0


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
