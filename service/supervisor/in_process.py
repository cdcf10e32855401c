"""A server in one process: a frontend and an engine behind the same boundary, without a connection between them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from service.checking.cache import checks_for
from service.checking.checker import Checks
from service.engine.local import LocalEngine
from service.engine.running import running_engine
from service.engine.store import ModelStore
from service.frontend.models import Models
from service.frontend.running import Frontend, running_frontend
from service.observability.metrics import Metrics
from service.observability.metrics_server import MetricsServer
from service.settings import Settings
from service.supervisor.desired import DesiredState
from service.supervisor.served import Served


class InProcessServer(Served):
    """A server in this process."""

    def __init__(
        self, settings: Settings, frontend: Frontend, store: ModelStore, checks: Checks, metrics_port: int
    ) -> None:
        super().__init__(settings, frontend.port, metrics_port)
        self.frontend = frontend
        self.store = store
        self._checks = checks

    @property
    def models(self) -> Models:
        """The models, as callers are told of them."""
        return self.frontend.models

    async def finish(self) -> None:
        """Finish the calls in flight, and answer no others."""
        await self.frontend.finish()

    def kill(self) -> None:
        """End the processes that check bundles."""
        self._checks.close()


@asynccontextmanager
async def running_in_process(settings: Settings, checks: Checks | None = None) -> AsyncIterator[InProcessServer]:
    """Run a server for the length of a block. Inside, its models are loaded; leaving finishes the calls in flight.

    Args:
        checks: checks bundles; None for processes of its own.

    Raises:
        LimelightError: a port is taken, the repository cannot be read, or the provider cannot be had.
    """
    async with AsyncExitStack() as stack:
        metrics, desired = Metrics(), DesiredState(Path(settings.repository))
        metrics_port = 0
        if settings.metrics_port:
            exposed = MetricsServer(settings.metrics_host, settings.metrics_port, lambda: [metrics.snapshot()])
            stack.callback(exposed.stop)
            metrics_port = exposed.port
        if checks is None:
            checks = checks_for(settings)
            stack.callback(checks.close)
        host = await stack.enter_async_context(running_engine(settings, metrics, checks))
        store, engine = host.store, LocalEngine(host)

        async def change(action: str, name: str, version: int) -> None:
            if action == "load":
                folder = await desired.folder(name, version)
                await store.load(name, version, folder)
                desired.add(name, version, folder)
            else:
                desired.remove(name, version)
                await store.unload(name, version)

        store.expect(await desired.find())
        frontend = await stack.enter_async_context(
            running_frontend(settings, metrics, [engine], shared=False, change_models=change)
        )
        await store.load_until_useful(desired.folders)
        engine.loaded()
        await frontend.models.loaded()
        frontend.open()
        yield InProcessServer(settings, frontend, store, checks, metrics_port)
