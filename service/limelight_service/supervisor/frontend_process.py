"""A frontend in a process of its own."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from limelight_service.errors import error_of
from limelight_service.ipc import control
from limelight_service.ipc.control import ControlLink
from limelight_service.ipc.remote import RemoteEngine
from limelight_service.observability.counters import Snapshot
from limelight_service.observability.metrics import Metrics
from limelight_service.settings import Settings
from limelight_service.supervisor.frontend import Frontend, running_frontend

_RECONNECT = 0.5  # seconds in which the successor of an engine that ended may bring a connection
_KNOWN = 5.0  # seconds in which a successor knows the models, unless an engine is away too


class FrontendServing:
    """A frontend that uses its engines, and does what its supervisor says. For one event loop."""

    def __init__(self, engines: list[RemoteEngine], link: ControlLink, *, succeeds: bool) -> None:
        """Take the engines. succeeds: the frontend takes the place of one that ended."""
        self._succeeds = succeeds
        self._engines = engines
        self._link = link
        for number, engine in enumerate(engines):
            engine.on_lost = partial(self._ask_for_connection, number)
        self._numbers = itertools.count()
        self._changes: dict[int, asyncio.Future[int]] = {}
        self._statistics: dict[int, asyncio.Future[Snapshot]] = {}
        self.frontend: Frontend | None = None

    def receive(self, message: Any, attached: socket.socket | None) -> None:
        """Do what the supervisor says."""
        if isinstance(message, control.Attach) and attached is not None:
            self._engines[message.number].attach(attached)
        elif isinstance(message, control.Starts):
            self._engines[message.number].starts_in(message.seconds)
        elif isinstance(message, control.Changed):
            future = self._changes.pop(message.number)
            if future.done():
                return
            if message.error is None:
                future.set_result(message.version)
            else:
                future.set_exception(error_of(message.error))
        elif isinstance(message, control.Statistics):
            asked = self._statistics.pop(message.number)
            if not asked.done():
                asked.set_result(message.snapshot or {})
        elif isinstance(message, control.Reread) and self.frontend is not None:
            self.frontend.access.reread()

    def _ask_for_connection(self, number: int) -> None:
        """Ask for another connection to an engine, unless its successor brings one."""

        def ask() -> None:
            if not self._engines[number].is_attached:
                self._link.send(control.Disconnected(number))

        asyncio.get_running_loop().call_later(_RECONNECT, ask)

    async def change_models(self, action: str, name: str, version: int) -> int:
        """As `WholeServer.change_models`: the supervisor does it."""
        number = next(self._numbers)
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._changes[number] = future
        self._link.send(control.Change(number, action, name, version))
        return await future

    async def statistics(self) -> Snapshot:
        """As `WholeServer.statistics`: the supervisor asks every process."""
        number = next(self._numbers)
        future: asyncio.Future[Snapshot] = asyncio.get_running_loop().create_future()
        self._statistics[number] = future
        self._link.send(control.Statistics(number))
        return await future

    async def loaded(self) -> None:
        """Wait until the models of every engine are known, and report ready from then on.

        A successor listens only then: until it does, the other frontends get its calls, and they know the models.
        Raises: LimelightError where it cannot listen.
        """
        assert self.frontend is not None
        if self._succeeds:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.frontend.models.loaded(), _KNOWN)
            await self.frontend.listen()
        await self.frontend.models.loaded()
        self.frontend.open()

    async def finish(self) -> None:
        """Stop in order."""
        assert self.frontend is not None
        await self.frontend.finish()


@asynccontextmanager
async def serving_frontend(
    settings: Settings, begin: control.Begin, link: ControlLink, metrics: Metrics
) -> AsyncIterator[FrontendServing]:
    """Run a frontend for the length of a block. Raises: LimelightError where it cannot serve."""
    async with AsyncExitStack() as stack:
        engines = [RemoteEngine(settings.arriving_bytes) for _ in range(begin.peers)]
        for each in engines:
            stack.callback(each.close)
        serving = FrontendServing(engines, link, succeeds=begin.succeeds)
        serving.frontend = await stack.enter_async_context(
            running_frontend(settings, metrics, engines, shared=True, whole=serving)
        )
        if not begin.succeeds:
            await serving.frontend.listen()
        yield serving
