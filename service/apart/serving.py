"""Two processes serve: this one takes calls, and starts another that answers them.

A process of Python runs one thread of it at a time. Here what takes calls, refuses what is too much and says that all
is well waits for nobody that computes, nor the other way round (docs/decisions/0026-a-process-takes-calls.md).
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from google.protobuf.message import Message

from service.access.access import Access
from service.apart.remote import Remote
from service.collector import collected_between_turns
from service.front import Front
from service.listening import address_of, metrics_url_of
from service.logs import count_dropped
from service.memory import give_back_when_quiet
from service.metrics import Metrics
from service.metrics_server import MetricsServer
from service.server import settle_interpreter
from service.settings import Settings
from service.signals import leave, stop_signals
from service.workers import Announced, Workers

logger = logging.getLogger(__name__)


async def serve(settings: Settings, announce: Callable[[Announced], None]) -> None:
    """Serve until a signal, then stop in order, and end the process with status 0.

    A second signal ends it at once, and so does one before the models are loaded.
    announce: called once the models are loaded and calls are answered.
    Raises: LimelightError where a port is taken, or the other process cannot serve.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(collected_between_turns())
        metrics = Metrics()
        count_dropped(metrics.log_line_dropped)
        remote = Remote(metrics, lambda ready: front.health.set(ready))
        access = await asyncio.to_thread(Access, settings, metrics, remote.keep)
        await stack.enter_async_context(access.kept_fresh())
        front = Front(settings, metrics, access, remote.methods, _unparsed)
        workers = Workers(settings, metrics, remote)
        stop = stack.enter_context(stop_signals(at_once=workers.kill))
        metrics_port = 0
        if settings.metrics_port:
            exposed = MetricsServer(workers.page, settings.metrics_host, settings.metrics_port)
            stack.push_async_callback(asyncio.to_thread, exposed.stop)  # a page that is being written needs this loop
            metrics_port = exposed.port
        stack.push_async_callback(workers.stop)
        port = await front.listen(stack, shared=False, is_pressed=lambda: False)
        await workers.start()
        given_back = give_back_when_quiet(lambda: remote.large, lambda: None)
        stack.callback(asyncio.create_task(given_back).cancel)
        settle_interpreter()
        stop.serving()
        announce(Announced(address_of(settings.host, port), metrics_url_of(settings.metrics_host, metrics_port)))
        await stop.signalled.wait()
        logger.info("stopping")
        await front.finish()
        await workers.stop()
        leave()


async def _unparsed(_: type[Message], data: bytes) -> Any:
    """Leave a request as it is: whoever answers parses it."""
    return data
