"""Takes calls in several at a time while there is time, and refuses unread what is too much.

gRPC's server takes one call of a method, then asks for the next: five turns of the event loop and the wake-up of a
thread lie between, 2 ms while lanes use every core. What comes faster waits in its core, which cancels some of it: to a
caller that is a call that he gave up, and no reason to come back. So more is asked for beside it, by the functions that
it uses itself, and what is too much gets a status that says when to come back. While time presses no more is asked
for: what comes in slowly is what keeps a flood out of the event loop
(docs/decisions/0025-calls-are-taken-in-together.md). Those functions are no part of gRPC's interface: with a release
that nobody has looked at, its own loop is all there is.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import grpc
from grpc._cython import cygrpc

from service.logs import describe
from service.rpc.status import Status

logger = logging.getLogger(__name__)

_KNOWN = ("1.85.",)
_AT_ONCE = 8  # of a method, beside the one that gRPC's loop asks for
_LOOK = 0.25  # seconds between looks at whether time still presses


def is_known() -> bool:
    """Tell whether this release of gRPC is one of those that calls can be asked of."""
    return str(grpc.__version__).startswith(_KNOWN)


class Accepting:
    """Takes calls in, from its start on until the server is stopped. For one event loop.

    most: calls of a method that may wait to be taken up. is_pressed: tells whether time presses now. refused: counts
    and logs a call that is refused, by its path, and gives its status.
    """

    def __init__(
        self,
        server: grpc.aio.Server,
        services: Mapping[str, Mapping[str, grpc.RpcMethodHandler]],
        interceptors: Sequence[grpc.aio.ServerInterceptor],
        most: int,
        is_pressed: Callable[[], bool],
        refused: Callable[[str, Any], Status],
    ) -> None:
        """Prepare it, for a server that has been started. services: registered with it, as are its interceptors."""
        self._server: Any = server._server
        self._handlers = {f"/{service}/{name}": each for service, of in services.items() for name, each in of.items()}
        self._resolver: Any = cygrpc._MethodResolver([], self._handlers)
        self._interceptors = tuple(interceptors)
        self._most = most
        self._is_pressed = is_pressed
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._paused: list[tuple[str, deque[Any]]] = []

    def start(self) -> None:
        """Ask for calls, until the server is stopped."""
        if not is_known():
            logger.warning("calls are taken in one by one: this release of gRPC is not known (%s)", grpc.__version__)
            return
        for method in self._handlers:
            waiting: deque[Any] = deque()
            for _ in range(_AT_ONCE):
                self._keep(self._accept(method, waiting))

    async def _accept(self, method: str, waiting: deque[Any]) -> None:
        encoded = method.encode()
        while self._server.is_running():
            try:
                call = await self._server._request_registered_call(encoded)
            except cygrpc._RequestCallError:  # the server stops, or one call went wrong before it was taken in
                continue
            if len(waiting) >= self._most:
                await self._refuse(method, call)
            else:
                waiting.append(call)
                if len(waiting) == 1:
                    self._loop.call_soon(self._take_up, method, waiting)
            if self._is_pressed():
                if not self._paused:
                    self._loop.call_later(_LOOK, self._go_on)
                self._paused.append((method, waiting))
                return

    def _go_on(self) -> None:
        """Ask as before, once time does not press any more."""
        if self._is_pressed():
            self._loop.call_later(_LOOK, self._go_on)
            return
        paused, self._paused = self._paused, []
        for method, waiting in paused:
            self._keep(self._accept(method, waiting))

    def _take_up(self, method: str, waiting: deque[Any]) -> None:
        """Begin with the oldest: one in a turn of the loop, which has other things to do."""
        call = waiting.popleft()
        handling = cygrpc._handle_rpc(method, self._resolver, self._interceptors, call, self._loop, False)
        self._keep(cygrpc._schedule_rpc_coro(handling, call, self._loop, method))
        if waiting:
            self._loop.call_soon(self._take_up, method, waiting)

    async def _refuse(self, method: str, call: Any) -> None:
        status = self._refused(method, cygrpc._ServicerContext(call, None, None, self._loop))
        first = cygrpc.SendInitialMetadataOperation(None, 0)
        code: int = status.code.value[0]
        with suppress(grpc.aio.BaseError):  # the call has ended meanwhile
            await cygrpc._send_error_status_from_server(call, code, status.message, status.trailing, first, self._loop)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("calls are taken in more slowly: %s", describe(error))
