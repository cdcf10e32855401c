"""One call, from its arrival to its end: identity, deadline, metrics, log line, and the status of what goes wrong."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
from google.protobuf.message import Message

from bundle.errors import LimelightError
from service.access.caller import ANYBODY, Caller, calling
from service.admission.connections import ConnectionQueues
from service.engine.observer import Rejection
from service.engine.types import Outlook
from service.errors import DeadlineError, QueueFullError, StoppingError
from service.observability.logs import log_failure, log_request, request_id
from service.observability.metrics import MethodMetrics, Metrics
from service.rpc.aborting import abort
from service.rpc.delivery import Delivery
from service.rpc.door import Door
from service.rpc.reading import Reading
from service.rpc.room import Room, Written, no_room
from service.rpc.status import REQUEST_ID_KEY, Status, StatusError, status_of

SERVICE = "limelight.v1.AttentionService"
# gRPC cancels a call at its deadline by itself. A status that is sent then reaches nobody, and gRPC does not free what
# it is made of: it frees that only where sending succeeded.
_CANCELLED_BY_THEN = 0.25  # seconds
_RETRY_AFTER = 1.0  # seconds, where nobody knows how long it will take


@dataclass
class Call:
    """What is known of a call; handlers fill in what they learn, for its log line.

    deadline: on `time.monotonic`'s clock, None without one. durations: milliseconds by stage.
    at_end: closed once gRPC has no more to do with the call. outlook: tells what another call like this one would find
    now; None where that is not known. room: for large messages that another process sends.
    """

    identity: str
    deadline: float | None
    at_end: ExitStack
    caller: Caller = ANYBODY
    model: str = ""
    version: int = 0
    rows: int = 0
    durations: dict[str, float] = field(default_factory=dict)
    outlook: Callable[[], Outlook] | None = None
    room: Room = no_room

    def when_sent(self, act: Callable[[], object]) -> None:
        """Have something done once gRPC has taken the whole answer, or the call has ended otherwise."""
        self.at_end.callback(act)

    def took(self, stage: str, nanoseconds: int) -> None:
        """Note how long a stage took."""
        self.durations[f"{stage}_ms"] = round(nanoseconds / 1e6, 3)


# Handlers answer a message, or its bytes where it was built away from the event loop.
UnaryHandler = Callable[[Any, Call], Awaitable[Message | Written]]
StreamHandler = Callable[[Any, Call], AsyncGenerator[Message | Written, None]]


@dataclass(frozen=True)
class UnaryMethod:
    """A method that answers once. request: the type of what it is asked with."""

    name: str
    request: type[Message]
    handle: UnaryHandler


@dataclass(frozen=True)
class StreamMethod:
    """A method that answers with a stream. request: the type of what it is asked with."""

    name: str
    request: type[Message]
    handle: StreamHandler


Method = UnaryMethod | StreamMethod


class Calls:
    """Makes gRPC handlers of plain ones: everything that every method has in common is here, and nowhere else.

    All of them are registered as methods that take a stream, which on the wire is the same: so they are called before
    the request is received, and not after.
    """

    def __init__(
        self, metrics: Metrics, connections: ConnectionQueues, reading: Reading, delivery: Delivery, door: Door
    ) -> None:
        self._metrics = metrics
        self._connections = connections
        self._reading = reading
        self._door = door
        self._counted: dict[str, MethodMetrics] = {}
        self._delivery = delivery

    def unary(self, name: str, request_type: type[Message], handle: UnaryHandler) -> grpc.RpcMethodHandler:
        """Make the handler of a method that answers once."""
        counted = self._counters("unary", name)

        async def answer(_: Any, context: Any) -> Message | Written:
            one = _Running(name, counted, context, self._metrics)
            try:
                one.check_deadline()
                one.enter(self._door, stream=False)
                async with (
                    self._connections.admitted(context.peer()),
                    self._reading.request(request_type, context, one.fail) as request,
                ):
                    response = await handle(request, one.call)
                await self._delivery.turn(response)
            except BaseException as error:
                await one.fail(error)
                raise
            one.end(grpc.StatusCode.OK)
            one.call.when_sent(self._delivery.watch(context))
            return response

        return grpc.stream_unary_rpc_method_handler(answer, response_serializer=serialised)

    def stream(self, name: str, request_type: type[Message], handle: StreamHandler) -> grpc.RpcMethodHandler:
        """Make the handler of a method that answers with a stream."""
        counted = self._counters("server_stream", name)

        # Writes itself: a handler that yields is not there when its call is cut while gRPC waits for a slow reader.
        async def answer(_: Any, context: Any) -> None:
            one = _Running(name, counted, context, self._metrics)
            try:
                one.check_deadline()
                one.enter(self._door, stream=True)
                async with (
                    self._connections.admitted(context.peer()),
                    self._reading.request(request_type, context, one.fail) as request,
                    aclosing(handle(request, one.call)) as responses,
                ):
                    async for response in responses:
                        await self._delivery.write(context, response)
            except BaseException as error:
                await one.fail(error)
                raise
            one.end(grpc.StatusCode.OK)

        return grpc.stream_stream_rpc_method_handler(answer, response_serializer=serialised)

    def refusal(self, name: str, error: LimelightError) -> grpc.RpcMethodHandler:
        """Make the handler of a call that is refused whatever it sends, of which nothing is read.

        name: of a method made here; a call to any other is neither counted nor logged.
        """
        counted = self._counted.get(name)

        async def answer(_: Any, context: Any) -> None:
            if counted is None:
                status = status_of(error, "")
                await abort(context, status.code, status.message, status.trailing)
            else:
                await _Running(name, counted, context, self._metrics).fail(error)

        return grpc.stream_stream_rpc_method_handler(answer)

    def turned_away(self, path: str, context: Any) -> Status:
        """Count and log a call that comes after more than can be taken up; gives what it is told.

        path: of its method, of any service; only calls to those made here are counted and logged. context: gRPC's.
        """
        identity = _identity(context)
        error = QueueFullError("more calls arrive than can be taken up; try again later", retry_after=_RETRY_AFTER)
        status = status_of(error, identity)
        counted = self._counted.get(path.removeprefix(f"/{SERVICE}/"))
        if counted is not None:
            counted.begin()
            self._metrics.rejected(Rejection.OVERLOAD, 1)
            name = path.rpartition("/")[2]
            _record(self._metrics, counted, name, Call(identity, None, ExitStack()), status.code, 0.0)
        return replace(status, trailing=((REQUEST_ID_KEY, identity), *status.trailing))

    def _counters(self, kind: str, name: str) -> MethodMetrics:
        self._counted[name] = self._metrics.methods(kind, SERVICE, [name])[name]
        return self._counted[name]


def serialised(response: Message | Written) -> Written:
    """Give the bytes of what a handler answers, or where they are."""
    return response.SerializeToString() if isinstance(response, Message) else response


def told_of(error: Exception, identity: str, method: str) -> Status:
    """Give what a call is told of an error, and log one that nobody foresaw, unless that has been done elsewhere."""
    status = status_of(error, identity)
    if status.code is grpc.StatusCode.INTERNAL and not isinstance(error, StatusError):
        log_failure(error, identity, method)
    return status


def _identity(context: Any) -> str:
    """Give a call's own name, which is its caller's where that fits."""
    return request_id(
        next((value for key, value in context.invocation_metadata() or () if key == REQUEST_ID_KEY), None)
    )


def _record(
    metrics: Metrics, counted: MethodMetrics, method: str, call: Call, code: grpc.StatusCode, seconds: float
) -> None:
    """Count a call that is over, and write its line."""
    counted.end(code, seconds)
    token = call.caller.name
    if token:
        metrics.token_call(token, code)
    log_request(
        identity=call.identity,
        token=token,
        method=method,
        model=call.model,
        version=call.version,
        rows=call.rows,
        code=code.name,
        seconds=seconds,
        durations=call.durations,
    )


class _Running:
    """The bookkeeping of one call."""

    def __init__(self, method: str, counted: MethodMetrics, context: Any, metrics: Metrics) -> None:
        self._started = time.monotonic()
        self._method = method
        self._counted = counted
        self._context = context
        self._metrics = metrics
        self._over = False
        remaining = context.time_remaining()
        deadline = None if remaining is None else self._started + remaining
        # gRPC keeps what it calls at the end in a cycle with its own part of the call: so that is one thing, of which
        # next to nothing is left by then.
        at_end = ExitStack()
        context.add_done_callback(lambda _: at_end.close())
        self.call = Call(_identity(context), deadline, at_end, calling.get())
        context.set_trailing_metadata(((REQUEST_ID_KEY, self.call.identity),))
        self._cut = False
        counted.begin()

    def enter(self, door: Door, *, stream: bool) -> None:
        """Go in, until the answer is sent. Raises: StoppingError where the server stops."""
        task = asyncio.current_task()
        assert task is not None

        def cut() -> None:
            self._cut = True
            task.cancel()

        try:
            inside = door.enter(cut, stream=stream)
        except StoppingError:
            self._metrics.rejected(Rejection.STOPPING, 1)
            raise
        self.call.when_sent(lambda: door.leave(inside))

    def check_deadline(self) -> None:
        """Raise DeadlineError where the deadline has passed before anything was done."""
        if self._is_late():
            self._metrics.rejected(Rejection.DEADLINE, 1)
            raise DeadlineError("the deadline had passed when the call arrived")

    async def fail(self, error: BaseException) -> None:
        """End the call with the status of an error; returns where the call was cancelled, or stopped before."""
        if self._over:
            return
        if self._cut and isinstance(error, asyncio.CancelledError):
            error = StoppingError("the server stopped before the answer was there", retry_after=0.0)
        if isinstance(error, asyncio.CancelledError):
            self.end(grpc.StatusCode.DEADLINE_EXCEEDED if self._is_late() else grpc.StatusCode.CANCELLED)
            return
        if not isinstance(error, Exception):
            self.end(grpc.StatusCode.INTERNAL)
            return
        status = told_of(error, self.call.identity, self._method)
        self.end(status.code)
        if self._is_late():
            await asyncio.sleep(_CANCELLED_BY_THEN)
        trailing = (REQUEST_ID_KEY, self.call.identity), *status.trailing
        await abort(self._context, status.code, status.message, trailing)

    def end(self, code: grpc.StatusCode) -> None:
        """Count the call and write its line."""
        self._over = True
        seconds = time.monotonic() - self._started
        _record(self._metrics, self._counted, self._method, self.call, code, seconds)

    def _is_late(self) -> bool:
        return self.call.deadline is not None and self.call.deadline <= time.monotonic()
