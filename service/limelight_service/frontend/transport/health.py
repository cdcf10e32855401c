"""Health checking (grpc.health.v1), for load balancers and probes.

The servicer of grpcio-health-checking will not do: one watcher that leaves takes the notifications of all others with
it, and watchers hold up a stop for its whole grace.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from limelight_service.frontend.transport.abort import abort

logger = logging.getLogger(__name__)

_Status = health_pb2.HealthCheckResponse.ServingStatus
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_MOST_WATCHING = 1024


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Tells whether the server, under the name "" and those of its services, can answer. For one event loop.

    why: says why it cannot, where that is known and will not pass; it is logged once somebody asks.
    """

    why: Callable[[], str] = staticmethod(lambda: "")

    def __init__(self, services: tuple[str, ...]) -> None:
        self._services = frozenset({"", *services})
        self._serving = False
        self._stopping = False
        self._changed = asyncio.Event()
        self._watching = 0
        self._explained = False

    @property
    def is_serving(self) -> bool:
        """True while the server can answer."""
        return self._serving

    def set(self, serving: bool) -> None:
        """Say whether the server can answer; without effect once it stops."""
        if not self._stopping and serving is not self._serving:
            self._serving, self._explained = serving, False
            self._notify()

    def stop(self) -> None:
        """Say for good that it cannot, and end all watching."""
        self._serving, self._stopping = False, True
        self._notify()

    async def Check(self, request: Any, context: Any) -> Any:
        """Tell the status of a service once."""
        if request.service not in self._services:
            await abort(context, grpc.StatusCode.NOT_FOUND, "there is no such service here")
        return self._response(request.service)

    async def List(self, request: Any, context: Any) -> Any:
        """Tell the status of every service."""
        return health_pb2.HealthListResponse(statuses={each: self._response(each) for each in self._services})

    async def Watch(self, request: Any, context: Any) -> AsyncGenerator[Any, None]:
        """Tell the status of a service, and again whenever it changes."""
        if self._watching >= _MOST_WATCHING:
            # Clients of gRPC that check health take this code for a server that is well, and any other for one that
            # is not, to which they send no call (gRPC's proposal A17).
            await abort(context, grpc.StatusCode.UNIMPLEMENTED, "too many watch already; use Check")
        told = None
        self._watching += 1
        try:
            while True:
                # As they are before the caller is told: a stop that comes meanwhile is told in the next turn.
                changed, stopping = self._changed, self._stopping
                response = self._response(request.service)
                if response.status != told:
                    told = response.status
                    yield response
                if stopping:
                    return
                await changed.wait()
        finally:
            self._watching -= 1

    def _response(self, service: str) -> health_pb2.HealthCheckResponse:
        if service not in self._services:
            return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
        if not self._serving and not self._stopping and not self._explained and (why := self.why()):
            self._explained = True
            logger.warning("health was asked for, and is NOT_SERVING: %s", why)
        return health_pb2.HealthCheckResponse(status=SERVING if self._serving else NOT_SERVING)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()  # those who wait hold the old one; what comes next is the new one's
