"""The processes of a server, as programs: each serves what its supervisor tells it, and ends with it."""

import asyncio
import socket
from contextlib import AbstractAsyncContextManager
from typing import Any

from limelight_bundle.errors import LimelightError
from limelight_service.ipc import control
from limelight_service.ipc.control import ControlLink
from limelight_service.observability.logs import configure_logs, flush_logs
from limelight_service.observability.metrics import Metrics
from limelight_service.process_signals import INTERRUPTED, leave, leave_signals_to_parent
from limelight_service.settings import Settings
from limelight_service.supervisor.serving import settle_interpreter


def main(role: str, descriptor: int) -> None:
    """Be an engine or a frontend until told to stop, or until the supervisor is gone.

    Args:
        role: `engine` or `frontend`.
        descriptor: of the connection to the supervisor.
    """
    leave_signals_to_parent()
    try:
        asyncio.run(_Process(role, socket.socket(fileno=descriptor)).run())
    finally:
        flush_logs()


class _Process:
    """A child process: the part that engines and frontends share."""

    def __init__(self, role: str, end: socket.socket) -> None:
        self._role = role
        self._end = end

    async def run(self) -> None:
        """Serve."""
        self._begun: asyncio.Future[control.Begin] = asyncio.get_running_loop().create_future()
        self._stopping = asyncio.Event()
        self._waiting: list[tuple[Any, socket.socket | None]] = []  # messages that came before anything runs
        self._serving: Any = None
        self.metrics = Metrics()
        self.link = ControlLink(self._end, self._receive, lambda: leave(INTERRUPTED))
        begin = await self._begun
        settings = Settings(**begin.settings)
        configure_logs(settings.log_level, process=f"{self._role}-{begin.number}", limit=settings.log_buffer_bytes)
        running: AbstractAsyncContextManager[Any]
        if self._role == "engine":
            from limelight_service.supervisor.engine_process import serving_engine

            running = serving_engine(settings, begin, self.link, self.metrics)
        else:
            from limelight_service.supervisor.frontend_process import serving_frontend

            running = serving_frontend(settings, begin, self.link, self.metrics)
        try:
            async with running as serving:
                self._serving = serving
                waiting, self._waiting = self._waiting, []
                for message, attached in waiting:
                    serving.receive(message, attached)
                loading = asyncio.ensure_future(serving.loaded())
                stopping = asyncio.ensure_future(self._stopping.wait())
                await asyncio.wait((loading, stopping), return_when=asyncio.FIRST_COMPLETED)
                if loading.done():
                    loading.result()
                    settle_interpreter()
                    self.link.send(control.Ready())
                await stopping
                await serving.finish()
                self.link.flush()
                leave()
        except LimelightError as error:
            self.link.send(control.Failed(error.message))
            self.link.flush()

    def _receive(self, message: Any, attached: socket.socket | None) -> None:
        match message:
            case control.Begin():
                self._begun.set_result(message)
            case control.Stop():
                if self._serving is None:  # there is nothing to keep in order yet
                    leave(INTERRUPTED)
                self._stopping.set()
            case control.Count():
                statistics = self.metrics.statistics.snapshot()
                self.link.send(control.Counted(dict(self.metrics.snapshot()), dict(statistics)))
            case _ if self._serving is None:
                self._waiting.append((message, attached))
            case _:
                self._serving.receive(message, attached)
