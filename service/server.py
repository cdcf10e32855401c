"""A running server: settings, repository, engine, metrics and health put together, and taken apart in good order."""

import asyncio
import gc
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from service.access.access import Access
from service.access.quotas import Quotas
from service.backend import running_backend
from service.checking.cache import checks_for
from service.checking.checker import Checks
from service.folders import Folders
from service.front import Front
from service.listening import Reachable
from service.observability.logs import count_dropped
from service.observability.metrics import Metrics
from service.observability.metrics_server import MetricsServer
from service.repository import Repository
from service.settings import Settings
from service.signals import leave, stop_signals

logger = logging.getLogger(__name__)

_SWITCH_SECONDS = 0.0005


class Stopping(Protocol):
    """A server that can be stopped in order."""

    async def finish(self) -> None:
        """Finish what is in flight."""


_Stopped = TypeVar("_Stopped", bound=Stopping)


@dataclass(frozen=True)
class Member:
    """A server that is one of several processes on one port. late: others answer already, so it listens once its models
    are loaded, and not before. folders: of the versions there are.
    """

    late: bool
    folders: Folders


class Server(Reachable):
    """A server that accepts calls, in one process."""

    def __init__(self, settings: Settings, port: int, metrics_port: int, repository: Repository, front: Front) -> None:
        super().__init__(settings, port, metrics_port)
        self.repository = repository
        self.front = front

    def open(self) -> None:
        """Report ready, if and as long as any model is."""
        self._heed()
        self.repository.on_change(self._heed)

    async def finish(self) -> None:
        """Stop in order, as `Front.finish` does."""
        await self.front.finish()

    def _heed(self) -> None:
        self.front.health.set(self.repository.is_ready)


@asynccontextmanager
async def running_server(
    settings: Settings,
    *,
    metrics: Metrics | None = None,
    member: Member | None = None,
    checks: Checks | None = None,
) -> AsyncIterator[Server]:
    """Run a server for the length of a block. Inside, its models are loaded; leaving finishes what is in flight.

    A process that serves nothing else ends inside the block, after `finish`: that tells clients to try elsewhere, where
    gRPC's own stop, which leaving comes to, would tell some that they gave up.
    Alone, it is then ready if any model is; a member of several says so once it is told to (`open`).
    checks: what checks bundles; None for processes of its own.
    Raises: LimelightError where a port is taken, the repository cannot be read, or the provider cannot be had.
    """
    async with AsyncExitStack() as stack:
        metrics = metrics or Metrics()
        quotas = Quotas(metrics)
        access = await asyncio.to_thread(Access, settings, metrics, quotas.keep)
        await stack.enter_async_context(access.kept_fresh())
        count_dropped(metrics.log_line_dropped)
        metrics_port = 0
        if settings.metrics_port:
            exposed = MetricsServer(settings.metrics_host, settings.metrics_port, lambda: [metrics.snapshot()])
            stack.callback(exposed.stop)
            metrics_port = exposed.port
        if checks is None:
            checks = checks_for(settings)
            stack.callback(checks.close)
        folders = None if member is None else member.folders
        backend = await stack.enter_async_context(
            running_backend(settings, metrics, checks, quotas, takes_calls=True, folders=folders)
        )
        repository = backend.repository
        front = Front(settings, metrics, access, backend.methods, backend.parsing.message)
        front.health.why = repository.why_not_ready
        late = member is not None and member.late
        if late:
            loading = await repository.load_until_useful()
        port = await front.listen(stack, shared=member is not None)
        if not late:
            loading = await repository.load_until_useful()
        stack.callback(loading.cancel)
        server = Server(settings, port, metrics_port, repository, front)
        if member is None:
            server.open()
        yield server


async def serve(settings: Settings, announce: Callable[[Server], None]) -> None:
    """Serve until a signal, then stop in order (`Server.finish`) and end the process with status 0.

    A second signal ends it at once, and so does one before the models are loaded.
    announce: called once the models are loaded and calls are answered.
    """
    checks = checks_for(settings)
    await serve_until_stopped(running_server(settings, checks=checks), announce, checks.close)


async def serve_until_stopped(
    running: AbstractAsyncContextManager[_Stopped], announce: Callable[[_Stopped], None], end: Callable[[], None]
) -> None:
    """Run a server until a signal, then have it finish, and end the process with status 0.

    A second signal ends it at once, and so does one before the models are loaded. announce: called once they are.
    end: ends what the process has started.
    """
    with stop_signals(at_once=end) as stop:
        async with running as server:
            settle_interpreter()
            stop.serving()
            announce(server)
            await stop.signalled.wait()
            logger.info("stopping")
            await server.finish()
            end()
            leave()


def settle_interpreter() -> None:
    """Set the interpreter up for a process that only serves, once its models are loaded.

    Its collector looks no more at what was loaded: with 500 models, each of its full rounds stopped every thread for 70
    ms on a busy machine, 10 with one model. What is unloaded goes without them: by its last reference.
    Threads take turns ten times as often: the event loop has a short turn to take for every call that arrives, and
    waited up to 5 ms for each of them beside lanes that build answers.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(_SWITCH_SECONDS)
