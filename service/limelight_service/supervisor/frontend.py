"""A running frontend: the core over some engines, and the protocols that it is served by."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from limelight_bundle.errors import LimelightError
from limelight_bundle.preprocess import Bounds
from limelight_service.admission.memory import MemoryBudget
from limelight_service.codecs.oip.service import SERVICE as INFERENCE_SERVICE
from limelight_service.codecs.oip.service import InferenceService
from limelight_service.codecs.v1.admin import ADMIN_SERVICE, AdminService
from limelight_service.codecs.v1.service import SERVICE, AttentionService
from limelight_service.frontend.calls import WholeServer
from limelight_service.frontend.core import Core
from limelight_service.frontend.models import Models
from limelight_service.frontend.server import FrontendServer
from limelight_service.frontend.signals import AttentionSignals
from limelight_service.ipc.client import EngineClient
from limelight_service.observability.logs import count_dropped
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.saturation import Part
from limelight_service.observability.traces import Tracer
from limelight_service.platform.collector import collected_between_turns
from limelight_service.platform.memory import give_back_when_quiet
from limelight_service.platform.threads import background
from limelight_service.security.access import Access
from limelight_service.security.quotas import Quotas
from limelight_service.settings import Settings

_SENDING = 2.0  # seconds that the last traces get on their way to a collector

if TYPE_CHECKING:
    from limelight_service.frontend.http.server import HttpServer


class Frontend:
    """A frontend that listens when it is told to. port, http_port: the real ones, once it does; 0 for none."""

    def __init__(
        self,
        models: Models,
        server: FrontendServer,
        http: "HttpServer | None",
        access: Access,
        stack: AsyncExitStack,
        *,
        shared: bool,
    ) -> None:
        self.models = models
        self.access = access
        self.server = server
        self.port = self.http_port = 0
        self._http = http
        self._stack = stack
        self._shared = shared
        self._is_open = False
        models.on_change(self._report)

    async def listen(self) -> None:
        """Answer calls from now on. Raises: LimelightError where the port is taken."""
        if self._http is not None:
            self.http_port = await self._stack.enter_async_context(self._http.listening(shared=self._shared))
        self.port = await self.server.listen(self._stack, shared=self._shared)

    def open(self) -> None:
        """Report ready from now on, if and as long as any model is."""
        self._is_open = True
        self._report()

    async def finish(self) -> None:
        """Stop in order: `FrontendServer.finish`."""
        await self.server.finish()

    def _report(self) -> None:
        self.server.health.set(self._is_open and self.models.is_ready)


@asynccontextmanager
async def running_frontend(
    settings: Settings,
    metrics: Metrics,
    engines: Sequence[EngineClient],
    *,
    shared: bool,
    whole: WholeServer,
) -> AsyncIterator[Frontend]:
    """Run a frontend for the length of a block, in which it is to be told to listen and to be open.

    Args:
        shared: other processes listen on the port as well.
        whole: what concerns other processes of the server too.

    Raises:
        LimelightError: a file of tokens or certificates cannot be used, or traces cannot be sent.
    """
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(collected_between_turns())
        count_dropped(metrics.log_line_dropped)
        metrics.loop(Part.FRONTENDS)
        quotas = Quotas(metrics)
        access = await asyncio.to_thread(Access, settings, metrics, quotas.keep)
        await stack.enter_async_context(access.kept_fresh())
        models = Models(engines, Bounds(settings.max_characters, settings.max_pixels))
        memory = MemoryBudget(settings.held_bytes, "maps and answers", metrics, workers=settings.core_count)
        signals: AttentionSignals | None = None
        if settings.attention_signals:
            signals = AttentionSignals(settings.attention_signals, models, metrics, memory)
            stack.callback(signals.close)

        stack.callback(models.close)
        core = Core(settings, models, metrics, memory, quotas, whole=whole, signals=signals)
        models.on_gone = core.gone
        stack.callback(core.close)

        def is_ready() -> bool:
            return server.health.is_serving

        services = {
            SERVICE: AttentionService(core, settings.max_response_bytes).methods(),
            INFERENCE_SERVICE: InferenceService(core, settings.max_instances, is_ready).methods(),
        }
        if settings.model_control == "explicit":
            services[ADMIN_SERVICE] = AdminService(core).methods()
        tracer = await stack.enter_async_context(_tracing()) if settings.tracing else None
        server = FrontendServer(settings, metrics, access, services, tracer)
        server.health.why = models.catalogue.why_not_ready
        giving_back = give_back_when_quiet(lambda: core.calls + server.large_requests, lambda: None)
        stack.callback(asyncio.create_task(giving_back).cancel)
        http = _http_server()(settings, access, core, server, is_ready) if settings.http_port else None
        yield Frontend(models, server, http, access, stack, shared=shared)


def _http_server() -> "Callable[..., HttpServer]":
    """Give what makes the HTTP server, which other servers do not import.

    Raises: LimelightError where its packages are not installed.
    """
    try:
        from limelight_service.codecs.http import http_server
    except ModuleNotFoundError as error:
        from limelight.base import installing

        name = str(error.name).partition(".")[0]
        raise LimelightError(
            f"HTTP needs the package {name}, which is not installed: {installing.extra('http')}"
        ) from error
    return http_server


@asynccontextmanager
async def _tracing() -> AsyncIterator[Tracer | None]:
    """Trace calls for the length of a block, unless the variables turn that off.

    Raises: LimelightError where the extra is not installed, or its variables cannot be used.
    """
    try:
        from limelight_service.observability.otlp import OtlpTracer, is_on
    except ModuleNotFoundError as error:
        from limelight.base.installing import extra

        raise LimelightError(f"tracing needs {error.name}, which is not installed: {extra('tracing')}") from error
    if not is_on():
        yield None
        return
    tracer = OtlpTracer()
    try:
        yield tracer
    finally:
        closing = background(tracer.close, "traces")
        closing.start()
        await asyncio.to_thread(closing.join, _SENDING)
