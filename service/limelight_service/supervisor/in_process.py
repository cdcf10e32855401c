"""A server in one process: a frontend and an engine behind the same boundary, without a connection between them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from limelight_service.checking.cache import checks_for
from limelight_service.checking.checker import Checks
from limelight_service.frontend.models import Models
from limelight_service.hosting.local import LocalEngine
from limelight_service.hosting.running import running_engine
from limelight_service.hosting.store import ModelStore
from limelight_service.observability.build import tell_build
from limelight_service.observability.counters import Snapshot
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.metrics_server import MetricsServer
from limelight_service.repository.catalogue import State
from limelight_service.settings import Settings
from limelight_service.supervisor.desired import DesiredState
from limelight_service.supervisor.frontend import Frontend, running_frontend
from limelight_service.supervisor.model_control import ModelControl
from limelight_service.supervisor.served import Served

_LOADING = State.LOADING


class _OneEngine:
    """The one engine, as `Engines`."""

    def __init__(self, store: ModelStore) -> None:
        self._store = store

    async def load(self, name: str, version: int, folder: Path) -> None:
        """As `Engines.load`."""
        await self._store.load(name, version, folder)

    async def unload(self, name: str, version: int) -> None:
        """As `Engines.unload`."""
        await self._store.unload(name, version)

    async def ready(self) -> Mapping[tuple[str, int], bool]:
        """As `Engines.ready`."""
        statuses = self._store.catalogue.statuses()
        return {(each.name, each.version): each.state is State.READY for each in statuses if each.state is not _LOADING}


class _Alone:
    """The one process of a server, as `WholeServer`."""

    def __init__(self, control: ModelControl, metrics: Metrics) -> None:
        self._control = control
        self._metrics = metrics

    async def change_models(self, action: str, name: str, version: int) -> int:
        """As `WholeServer.change_models`."""
        return await self._control.change(action, name, version)

    async def statistics(self) -> Snapshot:
        """As `WholeServer.statistics`."""
        return self._metrics.statistics.snapshot()


class InProcessServer(Served):
    """A server in this process."""

    def __init__(
        self,
        settings: Settings,
        frontend: Frontend,
        store: ModelStore,
        checks: Checks,
        metrics_port: int,
        control: ModelControl,
    ) -> None:
        super().__init__(settings, frontend.port, frontend.http_port, metrics_port)
        self.frontend = frontend
        self.store = store
        self._checks = checks
        self._control = control

    @property
    def models(self) -> Models:
        """The models, as callers are told of them."""
        return self.frontend.models

    async def finish(self) -> None:
        """Finish the calls in flight, and answer no others."""
        await self.frontend.finish()

    def reread(self) -> None:
        """Read tokens and certificates again, and look at the folder where it is followed."""
        self.frontend.access.reread()
        self._control.look_now()

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
        metrics, desired = Metrics(settings.core_count), DesiredState(settings)
        tell_build(metrics, settings)
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

        control = ModelControl(desired, _OneEngine(store))
        store.expect(await desired.find())
        whole = _Alone(control, metrics)
        frontend = await stack.enter_async_context(
            running_frontend(settings, metrics, [engine], shared=False, whole=whole)
        )
        await frontend.listen()
        await store.load_until_useful(desired.folders)
        engine.loaded()
        await frontend.models.loaded()
        frontend.open()
        if settings.model_control == "poll":
            stack.callback(asyncio.create_task(control.follow(settings.poll_seconds)).cancel)
        yield InProcessServer(settings, frontend, store, checks, metrics_port, control)
