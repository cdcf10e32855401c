"""Has Python's collector of cycles run on the event loop, between two of its turns, and not by itself.

By itself it runs, up to Python 3.11, in the midst of whatever makes an object, and a finalizer that it calls lets other
threads go on. google.protobuf is not made for that: it looks for the object that stands for a part of a message, makes
one where there is none, and keeps note of it. Where the making lets in a thread that reads the same part, there are
two, and one is freed twice: servers died of it among calls that were given up, whose exceptions leave cycles.
"""

import asyncio
import contextlib
import gc
import sys
from collections.abc import AsyncIterator

NEEDED = sys.version_info < (3, 12)
_SECONDS = 0.1  # some hundred calls; what they leave is looked through in two milliseconds


@contextlib.asynccontextmanager
async def collected_between_turns() -> AsyncIterator[None]:
    """Collect on the running event loop for the length of a block, as often as by itself but for small delays.

    From Python 3.12 on the collector is left alone: it runs between two instructions of a thread, and never while an
    object is made.
    """
    if not NEEDED:
        yield
        return
    by_itself = gc.isenabled()
    gc.disable()
    task = asyncio.create_task(_collect())
    try:
        yield
    finally:
        task.cancel()
        if by_itself:
            gc.enable()


async def _collect() -> None:
    lasting = waits = 0
    while True:
        await asyncio.sleep(_SECONDS)
        (young, middle, old), most = gc.get_count(), gc.get_threshold()
        if young <= most[0]:
            continue
        generation = int(middle > most[1])
        if generation and old > waits:
            # All of it only where what lasts has grown by a quarter, as by itself: it takes tens of milliseconds.
            if 4 * count_lasting() > 5 * lasting:
                generation = 2
            else:
                waits = old + most[2]
        gc.collect(generation)
        if generation == 2:
            lasting, waits = count_lasting(), most[2]


def count_lasting() -> int:
    """Count what has lived through several collections.

    In one go of C, so that no other thread runs while there is a list of it: a tuple that is being made, and that a
    list has as well, can no longer be made, and whoever makes it gets a SystemError.
    """
    return sum(map(len, map(gc.get_objects, (2,))))
