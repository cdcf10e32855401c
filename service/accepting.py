"""Takes calls in several at a time.

gRPC's server takes one call of a method, then asks for the next: five turns of the event loop and a thread's wake-up
lie between, which is 2 ms while lanes use every core. Callers who all ask again at the same moment are then taken in
one by one, and their rows miss each other's batch; and where more comes than that, gRPC's core cancels it unseen. Its
loop also looks at every method for each call. So more is asked for beside it, by the functions that it uses itself.
Those are not part of gRPC's interface: with a release that nobody has looked at, its own loop is all there is.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from grpc._cython import cygrpc

from service.logs import describe

logger = logging.getLogger(__name__)

_KNOWN = ("1.85.",)
_AT_ONCE = 7  # of a method, beside the one that gRPC's loop asks for


def is_known() -> bool:
    """Tell whether this release of gRPC is one of those that calls can be asked of."""
    return str(grpc.__version__).startswith(_KNOWN)


class Acceptors:
    """What asks a server for further calls, from entering to leaving; the server has been started, and not stopped."""

    def __init__(
        self,
        server: grpc.aio.Server,
        services: Mapping[str, Mapping[str, grpc.RpcMethodHandler]],
        interceptors: Sequence[grpc.aio.ServerInterceptor],
    ) -> None:
        """Prepare it. services: registered with the server, as are its interceptors."""
        self._core: Any = server._server
        self._handlers = {f"/{service}/{name}": each for service, of in services.items() for name, each in of.items()}
        self._interceptors = tuple(interceptors)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Ask for calls, until the server is stopped."""
        if not is_known():
            return
        resolver = cygrpc._MethodResolver([], self._handlers)
        for method in self._handlers:
            for _ in range(_AT_ONCE):
                self._keep(self._accept(method, resolver))

    async def _accept(self, method: str, resolver: Any) -> None:
        loop, encoded = asyncio.get_running_loop(), method.encode()
        while self._core.is_running():
            try:
                state = await self._core._request_registered_call(encoded)
            except cygrpc._RequestCallError:  # the server stops, or one call went wrong before it was taken in
                continue
            handling = cygrpc._handle_rpc(method, resolver, self._interceptors, state, loop, False)
            self._keep(cygrpc._schedule_rpc_coro(handling, state, loop, method))

    def _keep(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("calls are taken in more slowly: %s", describe(error))
