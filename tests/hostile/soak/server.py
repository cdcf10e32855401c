"""The server that is soaked: `limelight serve`, set by LIMELIGHT_* alone, which swaps a model on SIGUSR1.

Of a model with two versions one is loaded. The other is loaded beside it, then the first is taken out, as an operator
would: no call should notice.
"""

import asyncio
import itertools
import logging
import signal
from collections.abc import Coroutine
from typing import Any

from service.command import print_address, run
from service.configuration import load_settings
from service.repository import Repository, State
from service.server import Server

logger = logging.getLogger(__name__)
_kept: set[asyncio.Task[Any]] = set()


def announce(server: Server) -> None:
    """Leave one version of each model, say where calls are answered, and wait for signals."""
    wanted: asyncio.Queue[None] = asyncio.Queue()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, wanted.put_nowait, None)
    _keep(_swap(server.repository, wanted))
    print_address(server)


async def _swap(repository: Repository, wanted: "asyncio.Queue[None]") -> None:
    """Swap one model after another, whenever it is wanted."""
    while any(each.state is State.LOADING for each in repository.statuses()):
        await asyncio.sleep(0.1)
    names = sorted({each.name for each in repository.statuses() if each.version == 2})
    for name in names:
        await repository.unload(name, 2)
    loaded = dict.fromkeys(names, 1)
    for name in itertools.cycle(names):
        await wanted.get()
        before, after = loaded[name], 3 - loaded[name]
        try:
            await repository.load_version(name, after)
            await repository.unload(name, before)
        except Exception:
            logger.exception("%s could not be swapped", name)
        else:
            loaded[name] = after


def _keep(work: Coroutine[Any, Any, None]) -> None:
    """Run something beside the server; the loop itself would not keep it."""
    task = asyncio.get_running_loop().create_task(work)
    _kept.add(task)
    task.add_done_callback(_kept.discard)


if __name__ == "__main__":
    run(load_settings({}), announce)
