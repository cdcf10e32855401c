"""A worker: a process of its own that answers calls, on a port that it shares with others or handed on by one."""

import asyncio
import socket
from contextlib import AbstractAsyncContextManager

from bundle.errors import LimelightError
from service.apart.back import Back, running_back
from service.apart.link import End
from service.channel import Begin, Channel, Check, Checked, Count, Counted, Failed, Loaded, Open, Stop
from service.checking.shared import RemoteChecks
from service.observability.logs import configure_logs, flush_logs
from service.observability.metrics import Metrics
from service.server import Member, Server, running_server, settle_interpreter
from service.signals import INTERRUPTED, leave, leave_stopping_to_parent


def main(descriptor: int, *link: int) -> None:
    """Serve until told to stop, or until the process that started this one is gone.

    descriptor: of the channel. link: of the link that calls are handed on by, where another process takes them.
    """
    leave_stopping_to_parent()
    try:
        asyncio.run(_work(socket.socket(fileno=descriptor), End.of(link) if link else None))
    finally:
        flush_logs()


async def _work(end: socket.socket, link: End | None) -> None:
    channel = await Channel.over(end)
    begin = await channel.receive()
    if not isinstance(begin, Begin):
        return
    worker = begin.number if link is None else None  # one alone needs no number
    configure_logs(begin.settings.log_level, worker=worker, limit=begin.settings.log_buffer_bytes)
    metrics, stop = Metrics(), asyncio.Event()
    loaded: asyncio.Future[Server | Back] = asyncio.get_running_loop().create_future()
    checks = RemoteChecks(lambda question, request: channel.send(Check(question, request)))
    listening = asyncio.create_task(_listen(channel, metrics, checks, stop, loaded))
    serving: AbstractAsyncContextManager[Server | Back]
    if link is None:
        member = Member(begin.late, begin.folders)
        serving = running_server(begin.settings, metrics=metrics, member=member, checks=checks)
    else:
        serving = running_back(begin.settings, link, metrics, checks, begin.folders)
    try:
        async with serving as server:
            settle_interpreter()
            loaded.set_result(server)
            channel.send(Loaded())
            await stop.wait()
            await server.finish()
            leave()
    except LimelightError as error:
        channel.send(Failed(error.message))
        await channel.sent()
    finally:
        checks.close()
        listening.cancel()


async def _listen(
    channel: Channel,
    metrics: Metrics,
    checks: RemoteChecks,
    stop: asyncio.Event,
    loaded: "asyncio.Future[Server | Back]",
) -> None:
    """Do what is told; a channel that ends tells to stop."""
    while (message := await channel.receive()) is not None and not isinstance(message, Stop):
        if isinstance(message, Open):
            (await loaded).open()
        elif isinstance(message, Count):
            channel.send(Counted(await asyncio.to_thread(metrics.snapshot)))
        elif isinstance(message, Checked):
            checks.receive(message.number, message.verdict)
    _stop(stop, loaded)


def _stop(stop: asyncio.Event, loaded: "asyncio.Future[Server | Back]") -> None:
    """Stop in order; where nothing is served yet there is nothing to keep in order."""
    if not loaded.done():
        leave(INTERRUPTED)
    stop.set()
