"""Accepts calls several at a time, and refuses calls unread that are too many or have waited too long.

gRPC's server accepts one call of a method, then asks for the next: five turns of the event loop and the wake-up of a
thread lie between, 2 ms while workers use every core. Further calls wait in its core, which cancels those that it has
no room for, without a time to come back. So more calls are asked for beside it, by the functions that it uses itself,
and wait here (docs/decisions/0021-faults-of-grpc-and-python-worked-around.md). Those functions are private: with a
release of grpcio that is not known, gRPC's own loop is all there is.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import grpc
from grpc._cython import cygrpc

from limelight_service.admission.uploads import RECEIVED
from limelight_service.frontend.status import Status
from limelight_service.observability.logs import describe

logger = logging.getLogger(__name__)

_KNOWN = ("1.85.",)
_AT_ONCE, _AT_ONCE_OF_OTHERS = 256, 32  # of a method, beside the one that gRPC's loop asks for
# Methods that carry rows. Each call that is asked for keeps some kilobytes: of the other methods a few are enough.
_OF_ROWS = frozenset({"Predict", "Attend", "AttendStream", "Generate", "Explain", "ModelInfer", "ModelStreamInfer"})
# Calls of a method whose requests are being read. Beyond a few, calls that nobody has looked at compete for the event
# loop with those that are being answered; here they can still be refused at next to no cost.
_READ_AT_ONCE = 8
_NEXT_LOOK = 0.01  # seconds
_MOST_REFUSED = 8  # in one turn of the event loop
# The part of the time until its deadline after which a call that still waits for its turn is refused. In a queue that
# is served in order and grows as long as deadlines allow, every call is late when its turn comes.
_PART = 0.25
# Once one with rows was refused so, the load is no burst, and a wait helps nobody: this part is the limit then, until
# none was refused for a second. Callers learn early that they have to come back, and those taken up have most of their
# time left (docs/decisions/0027-overload-is-one-estimate-one-check-one-queue.md).
_CROWDED_PART, _CALM = 0.02, 1.0
# Seconds that every call may wait: a turn of the loop takes as long, and a call with less to its deadline is no load.
_LEAST = 0.01


def is_known() -> bool:
    """Tell whether this release of gRPC is one of those that calls can be asked of."""
    return str(grpc.__version__).startswith(_KNOWN)


class _Waiting(NamedTuple):
    """A call that waits for its turn. since: when it came, on the loop's clock. left: seconds to its deadline then."""

    call: Any
    since: float
    left: float

    def is_over(self, now: float, *, crowded: bool) -> bool:
        """Tell whether it has waited for too long; a call without a deadline never has."""
        return now - self.since > max(_LEAST, (_CROWDED_PART if crowded else _PART) * self.left)


@dataclass(eq=False)
class _Queue:
    """Calls of a method.

    waiting: oldest first. reading: a mark of each that was begun and whose request is not there. due: the next look.
    crowded_until: calls wait only shortly until then, as some have waited for too long.
    """

    method: str
    waiting: deque[_Waiting] = field(default_factory=deque)
    reading: set[object] = field(default_factory=set)
    due: asyncio.Handle | None = None
    crowded_until: float = -math.inf

    @property
    def has_rows(self) -> bool:
        """True for methods that take long; others, as health, are refused late."""
        return self.method.rpartition("/")[2] in _OF_ROWS


class ConcurrentAccept:
    """Takes calls in, from its start on until the server is stopped. For one event loop.

    most: calls of a method that may wait to be taken up. refused: counts and logs a call that is refused, by its path,
    and gives its status.
    """

    def __init__(
        self,
        server: grpc.aio.Server,
        services: Mapping[str, Mapping[str, grpc.RpcMethodHandler]],
        interceptors: Sequence[grpc.aio.ServerInterceptor],
        most: int,
        refused: Callable[[str, Any], Status],
    ) -> None:
        """Prepare it, for a server that has been started. services: registered with it, as are its interceptors."""
        self._server: Any = server._server
        self._handlers = {f"/{service}/{name}": each for service, of in services.items() for name, each in of.items()}
        self._resolver: Any = cygrpc._MethodResolver([], self._handlers)
        self._interceptors = tuple(interceptors)
        self._most = most
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Ask for calls, until the server is stopped."""
        if not is_known():
            logger.warning("calls are taken in one by one: this release of gRPC is not known (%s)", grpc.__version__)
            return
        for method in self._handlers:
            queue = _Queue(method)
            for _ in range(_AT_ONCE if queue.has_rows else _AT_ONCE_OF_OTHERS):
                self._keep(self._accept(queue))

    async def _accept(self, queue: _Queue) -> None:
        encoded = queue.method.encode()
        while self._server.is_running():
            try:
                call = await self._server._request_registered_call(encoded)
            except cygrpc._RequestCallError:  # the server stops, or one call went wrong before it was taken in
                continue
            if len(queue.waiting) >= self._most:
                await self._refuse(queue.method, call)
                continue
            left = self._context(call).time_remaining()
            queue.waiting.append(_Waiting(call, self._loop.time(), math.inf if left is None else left))
            if queue.due is None:
                queue.due = self._loop.call_soon(self._take_up, queue)

    def _take_up(self, queue: _Queue) -> None:
        """Begin with the oldest: one in a turn of the loop, which has other things to do.

        Where the oldest has waited for too long, it is refused, and the newest is begun with: it is the most likely to
        be answered in time.
        """
        now, refused, waiting = self._loop.time(), 0, queue.waiting
        while waiting and refused < _MOST_REFUSED and waiting[0].is_over(now, crowded=now < queue.crowded_until):
            if queue.has_rows:
                queue.crowded_until = now + _CALM
            self._keep(self._refuse(queue.method, waiting.popleft().call))
            refused += 1
        has_room = len(queue.reading) < _READ_AT_ONCE
        if waiting and has_room:
            self._begin(queue, (waiting.pop() if refused else waiting.popleft()).call)
        if not waiting:
            queue.due = None
        elif has_room:
            queue.due = self._loop.call_soon(self._take_up, queue)
        else:
            queue.due = self._loop.call_later(_NEXT_LOOK, self._take_up, queue)

    def _begin(self, queue: _Queue, call: Any) -> None:
        """Call the method's handler, which reads the request."""
        mark = object()
        queue.reading.add(mark)
        received = partial(self._received, queue, mark)
        token = RECEIVED.set(received)
        handling = cygrpc._handle_rpc(queue.method, self._resolver, self._interceptors, call, self._loop, False)
        self._keep(cygrpc._schedule_rpc_coro(handling, call, self._loop, queue.method), received)
        RECEIVED.reset(token)

    def _received(self, queue: _Queue, mark: object) -> None:
        """Count a call no more as one whose request is being read."""
        if mark not in queue.reading:
            return
        queue.reading.discard(mark)
        if isinstance(queue.due, asyncio.TimerHandle):
            queue.due.cancel()
            queue.due = self._loop.call_soon(self._take_up, queue)

    def _context(self, call: Any) -> Any:
        return cygrpc._ServicerContext(call, None, None, self._loop)

    async def _refuse(self, method: str, call: Any) -> None:
        status = self._refused(method, self._context(call))
        first = cygrpc.SendInitialMetadataOperation(None, 0)
        code: int = status.code.value[0]
        with suppress(grpc.aio.BaseError):  # the call has ended meanwhile
            await cygrpc._send_error_status_from_server(call, code, status.message, status.trailing, first, self._loop)

    def _keep(self, work: Coroutine[Any, Any, None], after: Callable[[], None] | None = None) -> None:
        """Do work beside; `after` is called at its end."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, after))

    def _ended(self, after: Callable[[], None] | None, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if after is not None:
            after()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("calls are taken in more slowly: %s", describe(error))
