"""One call, from its arrival to its end: identity, deadline, metrics, log line, and the status of what goes wrong."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import grpc
from google.protobuf.message import Message

from limelight_bundle.errors import LimelightError
from limelight_service.admission.connections import ConnectionQueues
from limelight_service.admission.drain import DrainGate, InFlightCall
from limelight_service.errors import DeadlineError, QueueFullError, StoppingError
from limelight_service.frontend.call import Call, Ending
from limelight_service.frontend.transport.abort import abort
from limelight_service.frontend.transport.methods import (
    DuplexMethod,
    Method,
    StreamHandler,
    StreamMethod,
    UnaryHandler,
    UnaryMethod,
)
from limelight_service.frontend.transport.reading import Reading
from limelight_service.frontend.transport.response_sender import ResponseSender
from limelight_service.frontend.transport.status import REQUEST_ID_KEY, Status, StatusError, status_of
from limelight_service.observability.logs import log_failure, log_request, request_id
from limelight_service.observability.metrics import MethodMetrics, Metrics
from limelight_service.observability.observer import Rejection
from limelight_service.observability.traces import Attribute, Trace, Tracer
from limelight_service.security.caller import calling

# gRPC cancels a call at its deadline by itself. A status that is sent then reaches nobody, and gRPC does not free what
# it is made of: it frees that only where sending succeeded.
_CANCELLED_BY_THEN = 0.25  # seconds
_RETRY_AFTER = 1.0  # seconds, where nobody knows how long it will take


class Calls:
    """Makes gRPC handlers of plain ones: everything that every method has in common is here, and nowhere else.

    All of them are registered as methods that take a stream, which on the wire is the same: so they are called before
    the request is received, and not after.
    """

    def __init__(
        self,
        metrics: Metrics,
        connections: ConnectionQueues,
        reading: Reading,
        sender: ResponseSender,
        drain: DrainGate,
        tracer: Tracer | None = None,
    ) -> None:
        self._metrics = metrics
        self._tracer = tracer
        self._connections = connections
        self._reading = reading
        self._drain = drain
        self._counted: dict[str, MethodMetrics] = {}  # by "service/method"
        self._sender = sender

    def handlers(self, service: str, methods: Sequence[Method]) -> dict[str, grpc.RpcMethodHandler]:
        """Make the handler of each method of a service."""
        return {each.name: self._handler(service, each) for each in methods}

    def _handler(self, service: str, method: Method) -> grpc.RpcMethodHandler:
        match method:
            case UnaryMethod():
                return self.unary(service, method.name, method.request, method.handle)
            case StreamMethod():
                return self.stream(service, method.name, method.request, method.handle)
        return self.duplex(service, method)

    def unary(
        self, service: str, name: str, request_type: type[Message], handle: UnaryHandler
    ) -> grpc.RpcMethodHandler:
        """Make the handler of a method that answers once."""
        counted = self._counters("unary", service, name)

        async def answer(_: Any, context: Any) -> Message | bytes:
            one = self._running(service, name, counted, context)
            try:
                one.check_deadline()
                one.enter(self._drain, stream=False)
                async with (
                    self._connections.admitted(context.peer()),
                    self._reading.request(request_type, context, one.fail) as request,
                ):
                    response = await handle(request, one.call)
                await self._sender.turn(response)
            except BaseException as error:
                await one.fail(error)
                raise
            one.end(grpc.StatusCode.OK)
            one.call.when_sent(self._sender.watch(context))
            return response

        return grpc.stream_unary_rpc_method_handler(answer, response_serializer=serialised)

    def stream(
        self, service: str, name: str, request_type: type[Message], handle: StreamHandler
    ) -> grpc.RpcMethodHandler:
        """Make the handler of a method that answers with a stream."""
        counted = self._counters("server_stream", service, name)

        # Writes itself: a handler that yields is not there when its call is cut while gRPC waits for a slow reader.
        async def answer(_: Any, context: Any) -> None:
            one = self._running(service, name, counted, context)
            try:
                one.check_deadline()
                one.enter(self._drain, stream=True)
                async with (
                    self._connections.admitted(context.peer()),
                    self._reading.request(request_type, context, one.fail) as request,
                    aclosing(handle(request, one.call)) as responses,
                ):
                    async for response in responses:
                        await self._sender.write(context, response)
            except BaseException as error:
                await one.fail(error)
                raise
            one.end(grpc.StatusCode.OK)

        return grpc.stream_stream_rpc_method_handler(answer, response_serializer=serialised)

    def duplex(self, service: str, method: DuplexMethod) -> grpc.RpcMethodHandler:
        """Make the handler of a method whose caller sends requests on one stream; each is answered before the next is
        read.
        """
        counted = self._counters("bidi_stream", service, method.name)

        async def answer(_: Any, context: Any) -> None:
            one = self._running(service, method.name, counted, context)
            try:
                one.check_deadline()
                inside = one.enter(self._drain, stream=True)
                for number in itertools.count():
                    with self._drain.idle(inside):
                        data = await self._reading.next_of_stream(context, one.fail)
                    if data is None:
                        break
                    async with self._connections.admitted(context.peer()):
                        await self._answer_part(method, data, one.part(number), context)
                    del data
            except BaseException as error:
                await one.fail(error)
                raise
            one.end(grpc.StatusCode.OK)

        return grpc.stream_stream_rpc_method_handler(answer, response_serializer=serialised)

    async def _answer_part(self, method: DuplexMethod, data: bytes, call: Call, context: Any) -> None:
        """Answer one request of a stream, which goes on whatever comes of it; it has a line in the log of its own."""
        started, code, request = time.monotonic(), grpc.StatusCode.OK, method.request()
        try:
            async with (
                self._reading.held(method.request, data) as request,
                aclosing(method.handle(request, call)) as responses,
            ):
                async for response in responses:
                    await self._sender.write(context, response)
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED
            raise
        except Exception as error:
            status = told_of(error, call.identity, method.name)
            code = status.code
            await self._sender.write(context, method.refuse(request, status))
        finally:
            log_call(method.name, call, code, time.monotonic() - started)
            call.at_end.close()

    def refusal(self, path: str, error: LimelightError) -> grpc.RpcMethodHandler:
        """Make the handler of a call that is refused whatever it sends, of which nothing is read.

        path: of its method, `service/method`; a call to one that was not made here is neither counted nor logged.
        """
        counted = self._counted.get(path)
        service, _, name = path.rpartition("/")

        async def answer(_: Any, context: Any) -> None:
            if counted is None:
                status = status_of(error, "")
                await abort(context, status.code, status.message, status.trailing)
            else:
                await self._running(service, name, counted, context).fail(error)

        return grpc.stream_stream_rpc_method_handler(answer)

    def turned_away(self, path: str, context: Any) -> Status:
        """Count and log a call that comes after more than can be taken up; gives what it is told.

        path: of its method, of any service; only calls to those made here are counted and logged. context: gRPC's.
        """
        identity = _identity(context)
        error = QueueFullError("more calls arrive than can be taken up; try again later", retry_after=_RETRY_AFTER)
        status = status_of(error, identity)
        counted = self._counted.get(path.removeprefix("/"))
        if counted is not None:
            counted.begin()
            self._metrics.rejected(Rejection.OVERLOAD, 1)
            name = path.rpartition("/")[2]
            record(self._metrics, counted, name, Call(identity, None, Ending()), status.code, 0.0)
        return replace(status, trailing=((REQUEST_ID_KEY, identity), *status.trailing))

    def _running(self, service: str, name: str, counted: MethodMetrics, context: Any) -> "_Running":
        """Begin the bookkeeping of a call."""
        trace = None
        if self._tracer is not None:
            trace = self._tracer.begin(service, name, context.invocation_metadata() or ())
        return _Running(name, counted, context, self._metrics, trace)

    def _counters(self, kind: str, service: str, name: str) -> MethodMetrics:
        counted = self._metrics.methods(kind, service, [name])[name]
        self._counted[f"{service}/{name}"] = counted
        return counted


def serialised(response: Message | bytes) -> bytes:
    """Give the bytes of a response."""
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


def record(
    metrics: Metrics, counted: MethodMetrics, method: str, call: Call, code: grpc.StatusCode, seconds: float
) -> None:
    """Count a call that is over, and write its line."""
    trace = call.trace
    counted.end(code.name, seconds, "" if trace is None else trace.identity)
    if trace is not None:
        attributes: dict[str, Attribute] = {"limelight.request_id": call.identity}
        if call.model:
            attributes |= {
                "limelight.model": call.model,
                "limelight.version": call.version,
                "limelight.rows": call.rows,
            }
        trace.end(code.name, attributes)
    if call.caller.name:
        metrics.token_call(call.caller.name, code.name)
    log_call(method, call, code, seconds)


def log_call(method: str, call: Call, code: grpc.StatusCode, seconds: float) -> None:
    """Write the line of a call that is over."""
    log_request(
        identity=call.identity,
        token=call.caller.name,
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

    def __init__(
        self, method: str, counted: MethodMetrics, context: Any, metrics: Metrics, trace: Trace | None
    ) -> None:
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
        at_end = Ending()
        context.add_done_callback(lambda _: at_end.close())
        self.call = Call(_identity(context), deadline, at_end, calling.get(), trace=trace)
        context.set_trailing_metadata(((REQUEST_ID_KEY, self.call.identity),))
        self._cut = False
        counted.begin()

    def part(self, number: int) -> Call:
        """Give the call that one request of a stream is, by its number."""
        call = self.call
        return Call(f"{call.identity}/{number}", call.deadline, Ending(), call.caller, trace=call.trace)

    def enter(self, drain: DrainGate, *, stream: bool) -> InFlightCall:
        """Go in, until the answer is sent. Raises: StoppingError where the server stops."""
        task = asyncio.current_task()
        assert task is not None

        def cut() -> None:
            self._cut = True
            task.cancel()

        try:
            inside = drain.enter(cut, stream=stream)
        except StoppingError:
            self._metrics.rejected(Rejection.STOPPING, 1)
            raise
        self.call.when_sent(lambda: drain.leave(inside))
        return inside

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
        record(self._metrics, self._counted, self._method, self.call, code, seconds)

    def _is_late(self) -> bool:
        return self.call.deadline is not None and self.call.deadline <= time.monotonic()
