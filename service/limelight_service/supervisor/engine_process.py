"""An engine in a process of its own."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from limelight_bundle.errors import LimelightError
from limelight_service.checking.shared import RemoteChecks
from limelight_service.checking.verdict import Request, from_json
from limelight_service.errors import ErrorRecord, record_of
from limelight_service.hosting.host import EngineHost
from limelight_service.hosting.links import FrontendLinks
from limelight_service.hosting.running import running_engine
from limelight_service.ipc import control
from limelight_service.ipc.control import ControlLink
from limelight_service.observability.logs import count_dropped
from limelight_service.observability.metrics import Metrics
from limelight_service.settings import Settings


class EngineServing:
    """An engine that serves frontends, and does what its supervisor says. For one event loop."""

    def __init__(self, host: EngineHost, checks: RemoteChecks, begin: control.Begin, link: ControlLink) -> None:
        self._store = host.store
        self._links = FrontendLinks(host)
        self._checks = checks
        self._link = link
        self._folders = {(name, version): Path(path) for name, version, path in begin.folders}
        self._changes: set[asyncio.Task[None]] = set()
        self._store.expect(self._folders)

    def receive(self, message: Any, attached: socket.socket | None) -> None:
        """Do what the supervisor says."""
        if isinstance(message, control.Attach) and attached is not None:
            self._links.attach(attached)
        elif isinstance(message, control.Checked):
            self._checks.receive(message.number, None if message.verdict is None else from_json(message.verdict))
        elif isinstance(message, control.Change):
            task = asyncio.create_task(self._change(message))
            self._changes.add(task)
            task.add_done_callback(self._changes.discard)

    async def loaded(self) -> None:
        """Load the models that a start waits for, and tell frontends."""
        await self._store.load_until_useful(self._folders)
        self._links.loaded()

    async def finish(self) -> None:
        """Stop: frontends have finished by then."""
        self._links.close()

    async def _change(self, message: control.Change) -> None:
        error: ErrorRecord | None = None
        try:
            if message.action == "load":
                await self._store.load(message.name, message.version, Path(message.path))
            else:
                await self._store.unload(message.name, message.version)
        except LimelightError as failure:
            error = record_of(failure)
        self._link.send(control.Changed(message.number, error))


@asynccontextmanager
async def serving_engine(
    settings: Settings, begin: control.Begin, link: ControlLink, metrics: Metrics
) -> AsyncIterator[EngineServing]:
    """Run an engine for the length of a block. Raises: LimelightError where it cannot serve."""

    def ask(number: int, request: Request) -> None:
        link.send(control.Check(number, request.to_json()))

    async with AsyncExitStack() as stack:
        count_dropped(metrics.log_line_dropped)
        checks = RemoteChecks(ask)
        stack.callback(checks.close)
        host = await stack.enter_async_context(running_engine(settings, metrics, checks))
        yield EngineServing(host, checks, begin, link)
