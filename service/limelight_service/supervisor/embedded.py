"""A server without a port, for a host that brings its own transport: the methods of limelight.v1 as functions.

The host receives requests, admits callers and restarts processes. What a port of Limelight has beside that (TLS,
tokens, limits of arriving requests, health, metrics page) is the host's to provide.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import grpc

from limelight_bundle.preprocess import Bounds
from limelight_service.admission.memory import MemoryBudget
from limelight_service.checking.cache import checks_for
from limelight_service.codecs.v1.service import AttentionService
from limelight_service.errors import WrongModelError
from limelight_service.frontend.call import Call, Ending
from limelight_service.frontend.core import Core
from limelight_service.frontend.models import Models
from limelight_service.frontend.transport.calls import log_call, serialised, told_of
from limelight_service.frontend.transport.methods import StreamMethod, UnaryMethod
from limelight_service.frontend.transport.status import Status, StatusError
from limelight_service.hosting.local import LocalEngine
from limelight_service.hosting.running import running_engine
from limelight_service.observability.counters import Snapshot
from limelight_service.observability.logs import request_id
from limelight_service.observability.metrics import Metrics
from limelight_service.security.quotas import Quotas
from limelight_service.settings import Settings
from limelight_service.supervisor.desired import DesiredState


class _Fixed:
    """A server whose models stay, as `WholeServer`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def change_models(self, action: str, name: str, version: int) -> NoReturn:
        """As `WholeServer.change_models`. Raises WrongModelError."""
        raise WrongModelError(f"cannot {action} {name!r}: the models of an embedded server are those of its start")

    async def statistics(self) -> Snapshot:
        """As `WholeServer.statistics`."""
        return self._metrics.statistics.snapshot()


class EmbeddedServer:
    """The methods of `limelight.v1.AttentionService` by name, over an engine in this process. For one event loop."""

    def __init__(self, core: Core, max_response_bytes: int) -> None:
        self._core = core
        self._methods = {each.name: each for each in AttentionService(core, max_response_bytes).methods()}

    @property
    def is_ready(self) -> bool:
        """True while some model can answer."""
        return self._core.models.is_ready

    async def answer(self, name: str, request: Any, sent_id: str | None = None) -> bytes:
        """Answer a method that answers once, with the bytes of its response.

        Args:
            request: the message.
            sent_id: the caller's own id of the request, for the log.

        Raises:
            StatusError: what to tell the caller.
        """
        method = self._methods[name]
        assert isinstance(method, UnaryMethod)
        with _Running(name, sent_id) as running:
            try:
                return serialised(await method.handle(request, running.call))
            except Exception as error:
                raise running.failed(error) from error

    async def stream(self, name: str, request: Any, sent_id: str | None = None) -> AsyncGenerator[bytes, None]:
        """Answer a method that answers with a stream, with the bytes of each response. As `answer`."""
        method = self._methods[name]
        assert isinstance(method, StreamMethod)
        with _Running(name, sent_id) as running:
            try:
                async with aclosing(method.handle(request, running.call)) as responses:
                    async for response in responses:
                        yield serialised(response)
            except Exception as error:
                raise running.failed(error) from error


class _Running:
    """A call for the length of a block: its memory is released and its log line written at the end."""

    def __init__(self, method: str, sent_id: str | None) -> None:
        self._method = method
        self._started = time.monotonic()
        self._code = grpc.StatusCode.OK
        # The host's own deadline cancels the call: none is known here.
        self.call = Call(request_id(sent_id), None, Ending())

    def failed(self, error: Exception) -> StatusError:
        """Note an error, and return the status that the caller is told."""
        status: Status = told_of(error, self.call.identity, self._method)
        self._code = status.code
        return StatusError(status)

    def __enter__(self) -> "_Running":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        self.call.at_end.close()
        if kind is not None and not issubclass(kind, Exception):
            self._code = grpc.StatusCode.CANCELLED
        log_call(self._method, self.call, self._code, time.monotonic() - self._started)


@asynccontextmanager
async def embedded(settings: Settings) -> AsyncIterator[EmbeddedServer]:
    """Run a server in this process for the length of a block. Inside, its models are loaded and checked.

    Args:
        settings: those of ports, processes, access and stopping have no effect.

    Raises:
        LimelightError: the repository cannot be read, or the provider cannot be had.
    """
    async with AsyncExitStack() as stack:
        metrics, desired = Metrics(), DesiredState(Path(settings.repository))
        checks = checks_for(settings)
        stack.callback(checks.close)
        host = await stack.enter_async_context(running_engine(settings, metrics, checks))
        engine = LocalEngine(host)
        host.store.expect(await desired.find())
        models = Models([engine], Bounds(settings.max_characters, settings.max_pixels))
        models.on_gone = metrics.statistics.gone
        stack.callback(models.close)
        memory = MemoryBudget(settings.held_bytes, "maps and answers", metrics, workers=settings.core_count)
        core = Core(settings, models, metrics, memory, Quotas(metrics), whole=_Fixed(metrics))
        stack.callback(core.close)
        await host.store.load_until_useful(desired.folders)
        engine.loaded()
        await models.loaded()
        yield EmbeddedServer(core, settings.max_response_bytes)
