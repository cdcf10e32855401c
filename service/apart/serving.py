"""Two processes serve: this one takes calls, and starts another that answers them.

A process of Python runs one thread of it at a time. Here what takes calls, refuses what is too much and says that all
is well waits for nobody that computes, nor the other way round (docs/decisions/0026-a-process-takes-calls.md).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self

from google.protobuf.message import Message

from service.access.access import Access
from service.apart.remote import Remote
from service.collector import collected_between_turns
from service.front import Front
from service.listening import Reachable
from service.memory import give_back_when_quiet
from service.observability.logs import count_dropped
from service.observability.metrics import Metrics
from service.server import serve_until_stopped
from service.settings import Settings
from service.workers import Workers


class Apart(Reachable):
    """A server of two processes, which is reached once it runs. For one event loop.

    front: what takes calls, from then on.
    """

    def __init__(self, settings: Settings) -> None:
        """Prepare it; nothing is started yet."""
        super().__init__(settings)
        self._metrics = Metrics()
        self._remote = Remote(self._metrics, self._heed, settings.arriving_bytes)
        self._workers = Workers(settings, self._metrics, self._remote)
        self.front: Front | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run it for the length of a block. Inside, its models are loaded; leaving finishes what is in flight.

        Raises: LimelightError where a port is taken, or the other process cannot serve.
        """
        settings, metrics, remote = self.settings, self._metrics, self._remote
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(collected_between_turns())
            count_dropped(metrics.log_line_dropped)
            access = await asyncio.to_thread(Access, settings, metrics, remote.keep)
            await stack.enter_async_context(access.kept_fresh())
            self.metrics_port = self._workers.expose(stack)
            given_back = give_back_when_quiet(lambda: remote.asked, lambda: None)
            stack.callback(asyncio.create_task(given_back).cancel)
            stack.push_async_callback(self._workers.stop)
            self.front = Front(settings, metrics, access, remote.methods, _unparsed)
            self.front.health.why = self._workers.nothing_to_serve
            self.port = await self.front.listen(stack, shared=False)
            await self._workers.start()
            yield self

    async def finish(self) -> None:
        """Stop in order: first what takes calls (`Front.finish`), then what answers them."""
        assert self.front is not None
        await self.front.finish()
        await self._workers.stop()

    def kill(self) -> None:
        """End what answers at once."""
        self._workers.kill()

    def _heed(self, ready: bool) -> None:
        if self.front is not None:
            self.front.health.set(ready)


async def serve(settings: Settings, announce: Callable[[Apart], None]) -> None:
    """Serve until a signal, then stop in order, and end the process with status 0.

    A second signal ends it at once, and so does one before the models are loaded.
    announce: called once the models are loaded and calls are answered.
    Raises: LimelightError where a port is taken, or the other process cannot serve.
    """
    apart = Apart(settings)
    await serve_until_stopped(apart.running(), announce, apart.kill)


async def _unparsed(_: type[Message], data: bytes) -> bytes:
    """Leave a request as it is: whoever answers parses it."""
    return data
