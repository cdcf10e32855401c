"""Gives memory back to the system that the C library keeps after it was freed."""

import asyncio
import contextlib
import ctypes
from collections.abc import Callable

_QUIET_SECONDS = 5.0


def give_back() -> None:
    """Have the C library return what is free. Does nothing where the library cannot."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def give_back_when_quiet(admitted: Callable[[], int], *, quiet: float = _QUIET_SECONDS) -> None:
    """Give memory back whenever nothing was asked for so many seconds, after something was; ends when cancelled.

    admitted: counts what was asked for so far.
    """
    given = seen = admitted()
    while True:
        await asyncio.sleep(quiet)
        before, seen = seen, admitted()
        if seen == before and seen != given:
            await asyncio.to_thread(give_back)
            given = seen
