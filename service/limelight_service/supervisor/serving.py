"""The life of a program that serves, from its settings to the signal that stops it."""

import gc
import logging
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from limelight_service.process_signals import leave, on_hang_up, stop_signals
from limelight_service.settings import Settings
from limelight_service.supervisor.served import Served

logger = logging.getLogger(__name__)

_SWITCH_SECONDS = 0.0005


async def serve(settings: Settings, announce: Callable[[Served], None]) -> None:
    """Serve until a signal, in one process or in several as the settings say.

    announce: called once the models are loaded and calls are answered.
    Raises: LimelightError where a port is taken, or the repository or the provider cannot be used.
    """
    if not settings.frontends:
        from limelight_service.checking.cache import checks_for
        from limelight_service.supervisor.in_process import running_in_process

        checks = checks_for(settings)
        await serve_until_stopped(running_in_process(settings, checks), checks.close, announce)
        return
    from limelight_service.supervisor.supervisor import Supervisor, supervised

    made: list[Supervisor] = []

    def kill() -> None:
        for each in made:
            each.kill()

    await serve_until_stopped(supervised(settings, made), kill, announce)


async def serve_until_stopped(
    running: AbstractAsyncContextManager[Served], kill: Callable[[], None], announce: Callable[[Served], None]
) -> None:
    """Run a server until a signal, then have it finish, and end this process with status 0.

    A second signal ends it at once, and so does one before the models are loaded.

    Args:
        kill: ends the processes that the server has started, at any time.
        announce: called once the models are loaded and calls are answered.
    """
    with stop_signals(at_once=kill) as stop:
        async with running as server:
            settle_interpreter()
            stop.serving()
            on_hang_up(partial(_read_again, server))
            announce(server)
            await stop.signalled.wait()
            logger.info("stopping")
            await server.finish()
            kill()
            leave()


def _read_again(server: Served) -> None:
    logger.info("SIGHUP: reading tokens and certificates again")
    server.reread()


def settle_interpreter() -> None:
    """Set the interpreter up for a process that only serves, once its models are loaded.

    The collector of cycles leaves the loaded models alone: with 500 of them each of its full rounds stopped every
    thread for 70 ms. Threads take turns ten times as often: the event loop has a short turn to take for every call, and
    waited up to 5 ms for each of them beside workers that compute.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(_SWITCH_SECONDS)
