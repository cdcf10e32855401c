"""A server without a port, for a host that brings its own transport: the methods of limelight.v1 as functions.

The host receives requests, admits callers and restarts processes. What a port of Limelight has beside that (TLS,
tokens, limits of arriving requests, health, metrics page) is the host's to provide.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from typing import Any, NoReturn

import grpc

from limelight_bundle.preprocess import Bounds
from limelight_service.admission.drain import DrainGate
from limelight_service.admission.memory import MemoryBudget
from limelight_service.checking.cache import checks_for
from limelight_service.codecs.v1.service import SERVICE, AttentionService
from limelight_service.errors import WrongModelError
from limelight_service.frontend.call import Call
from limelight_service.frontend.core import Core
from limelight_service.frontend.lifecycle import Lifecycle, RunningCall
from limelight_service.frontend.models import Models
from limelight_service.frontend.status import StatusError
from limelight_service.frontend.transport.calls import serialised
from limelight_service.frontend.transport.methods import StreamMethod, UnaryMethod
from limelight_service.hosting.local import LocalEngine
from limelight_service.hosting.running import running_engine
from limelight_service.observability.build import tell_build
from limelight_service.observability.counters import Snapshot
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.saturation import Saturation
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

    def __init__(self, core: Core, max_response_bytes: int, metrics: Metrics) -> None:
        self._core = core
        self._metrics, self._saturation = metrics, Saturation()
        self._lifecycle = Lifecycle(metrics, DrainGate())
        methods = AttentionService(core, max_response_bytes).methods()
        self._methods = {each.name: (each, self._lifecycle.method("embedded", SERVICE, each.name)) for each in methods}

    @property
    def is_ready(self) -> bool:
        """True while some model can answer."""
        return self._core.models.is_ready

    def saturation(self) -> float:
        """Give how much is asked of this server, by what it can do: 1 is full. For a host that asks now and then."""
        return self._saturation.of(self._metrics.snapshot())

    async def answer(self, name: str, request: Any, sent_id: str | None = None) -> bytes:
        """Answer a method that answers once, with the bytes of its response.

        Args:
            request: the message.
            sent_id: the caller's own id of the request, for the log.

        Raises:
            StatusError: what to tell the caller.
        """
        method, called = self._methods[name]
        assert isinstance(method, UnaryMethod)
        with _ended(self._lifecycle.begin(called, sent_id)) as call:
            return serialised(await method.handle(request, call))

    async def stream(self, name: str, request: Any, sent_id: str | None = None) -> AsyncGenerator[bytes, None]:
        """Answer a method that answers with a stream, with the bytes of each response. As `answer`."""
        method, called = self._methods[name]
        assert isinstance(method, StreamMethod)
        with _ended(self._lifecycle.begin(called, sent_id)) as call:
            async with aclosing(method.handle(request, call)) as responses:
                async for response in responses:
                    yield serialised(response)


@contextmanager
def _ended(running: RunningCall) -> Iterator[Call]:
    """End a call with a block. The host's own deadline cancels it: none is known here.

    Raises: StatusError, what to tell the caller.
    """
    code = grpc.StatusCode.OK
    try:
        yield running.call
    except BaseException as error:
        status = running.status(error)
        code = grpc.StatusCode.CANCELLED if status is None else status.code
        if status is None:
            raise
        raise StatusError(status) from error
    finally:
        running.call.at_end.close()
        running.end(code)


@asynccontextmanager
async def embedded(settings: Settings) -> AsyncIterator[EmbeddedServer]:
    """Run a server in this process for the length of a block. Inside, its models are loaded and checked.

    Args:
        settings: those of ports, processes, access and stopping have no effect.

    Raises:
        LimelightError: the repository cannot be read, or the provider cannot be had.
    """
    async with AsyncExitStack() as stack:
        metrics, desired = Metrics(settings.core_count), DesiredState(settings)
        tell_build(metrics, settings)
        checks = checks_for(settings)
        stack.callback(checks.close)
        host = await stack.enter_async_context(running_engine(settings, metrics, checks))
        engine = LocalEngine(host)
        host.store.expect(await desired.find())
        models = Models([engine], Bounds(settings.max_characters, settings.max_pixels))
        stack.callback(models.close)
        memory = MemoryBudget(settings.held_bytes, "maps and answers", metrics, workers=settings.core_count)
        core = Core(settings, models, metrics, memory, Quotas(metrics), whole=_Fixed(metrics))
        models.on_gone = core.gone
        stack.callback(core.close)
        await host.store.load_until_useful(desired.folders)
        engine.loaded()
        await models.loaded()
        yield EmbeddedServer(core, settings.max_response_bytes, metrics)
