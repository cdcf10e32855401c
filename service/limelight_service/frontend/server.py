"""The gRPC server of a frontend: the port, who is let in, how requests arrive and answers leave, and health."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from limelight_service.admission.connections import ConnectionQueues
from limelight_service.admission.drain import DrainGate
from limelight_service.admission.memory import MemoryBudget
from limelight_service.admission.uploads import UploadLimiter, UploadSlots
from limelight_service.frontend.lifecycle import Lifecycle
from limelight_service.frontend.transport.calls import Calls
from limelight_service.frontend.transport.health import Health
from limelight_service.frontend.transport.health_and_reflection import (
    HEALTH_SERVICE,
    MOMENT,
    REFLECTION_SERVICE,
    SLOTS,
    health_service,
    reflection_service,
)
from limelight_service.frontend.transport.listening import listen
from limelight_service.frontend.transport.methods import Method
from limelight_service.frontend.transport.parsing import Parsing
from limelight_service.frontend.transport.reading import Reading
from limelight_service.frontend.transport.response_sender import ResponseSender
from limelight_service.observability.metrics import Metrics
from limelight_service.observability.traces import Tracer
from limelight_service.platform.unsent import all_sent
from limelight_service.security.access import Access
from limelight_service.settings import Settings

_STREAM_MOMENT = 1.0  # seconds
_ARRIVING = 5.0  # seconds that the last answers get at most on their way to slow readers


class FrontendServer:
    """Serves methods over gRPC. For one event loop.

    services: methods by the name of their service. health: tells whether they are answered. lifecycle,
    connections, requests: of its calls, the queues in which they wait, and the memory of requests in flight; HTTP has
    the same.
    large_requests: so many so far that took memory worth giving back.
    """

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        access: Access,
        services: Mapping[str, Sequence[Method]],
        tracer: Tracer | None = None,
    ) -> None:
        self.health = Health(tuple(services))
        self._settings = settings
        self._access = access
        self._names = tuple(services)
        self.lifecycle = Lifecycle(metrics, DrainGate(), tracer)
        self._parsing = Parsing(settings.max_request_fields)
        slots = UploadSlots.within(settings.arriving_bytes, settings.max_request_bytes)
        uploads = UploadLimiter(slots, settings.arrival_seconds, metrics)
        # A stream of requests is quiet as long as a connection may be: so often it is looked at, and no more.
        streams = UploadLimiter(slots, settings.idle_seconds, metrics, _STREAM_MOMENT)
        self.requests = MemoryBudget(settings.arriving_bytes, "requests", metrics)
        reading = Reading(uploads, streams, self.requests, self._parsing.message)
        sender = ResponseSender(settings.answer_seconds)
        self.connections = ConnectionQueues(settings.max_calls_per_connection, settings.pending_calls, metrics)
        self._calls = Calls(self.lifecycle, self.connections, reading, sender)
        aside = UploadLimiter(SLOTS, settings.arrival_seconds, metrics, MOMENT)
        self._handlers = {name: self._calls.handlers(name, methods) for name, methods in services.items()}
        self._handlers[HEALTH_SERVICE] = health_service(self.health, aside, sender)
        if settings.reflection:
            names = (*self._names, HEALTH_SERVICE)
            self._handlers[REFLECTION_SERVICE] = reflection_service(names, aside, sender)

    @property
    def large_requests(self) -> int:
        """Count the requests so far that took memory worth giving back."""
        return self._parsing.large

    async def listen(self, stack: AsyncExitStack, *, shared: bool) -> int:
        """Answer calls until the stack is left, which finishes those in flight; gives the port.

        Args:
            shared: the port is shared with other processes that say so as well.

        Raises:
            LimelightError: the port is taken.
        """
        stack.callback(self._parsing.close)
        port = await listen(
            self._settings,
            self._handlers,
            self._access,
            self._access.interceptors(self._names, self._calls.refusal),
            stack,
            shared=shared,
            refused=self._calls.turned_away,
        )
        stack.push_async_callback(self.lifecycle.drain.finish, self._settings.grace_seconds)
        stack.callback(self.health.stop)
        return port

    async def finish(self) -> None:
        """Stop in order, up to the point where no call is inside and none is let in.

        Report not ready, and give load balancers time to notice; calls are answered all the while. Then finish, and
        wait until answers have arrived.
        """
        self.health.stop()
        await asyncio.sleep(self._settings.drain_seconds)
        end = time.monotonic() + self._settings.grace_seconds
        await self.lifecycle.drain.finish(self._settings.grace_seconds)
        await all_sent(min(_ARRIVING, end - time.monotonic()))
