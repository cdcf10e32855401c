"""gRPC handlers of plain ones: how a call is read, answered, refused, and told of what went wrong."""

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
from limelight_service.admission.connections import Connection, ConnectionQueues
from limelight_service.admission.memory import Held
from limelight_service.errors import QueueFullError
from limelight_service.frontend.lifecycle import CalledMethod, Lifecycle, RunningCall
from limelight_service.frontend.status import REQUEST_ID_KEY, Status, status_of
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
from limelight_service.observability.observer import Rejection
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
        self, lifecycle: Lifecycle, connections: ConnectionQueues, reading: Reading, sender: ResponseSender
    ) -> None:
        self._lifecycle = lifecycle
        self.connections = connections
        self.reading = reading
        self._sender = sender
        self._methods: dict[str, CalledMethod] = {}  # by "service/method"

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
        method = self._declared("unary", service, name)

        async def answer(_: Any, context: Any) -> Message | bytes:
            one = self._begun(method, context)
            try:
                one.running.enter(stream=False)
                inside = _Inside(self, context.peer())
                try:
                    request = await inside.request(request_type, context, one)
                    response = await handle(request, one.running.call)
                finally:
                    inside.leave()
                await self._sender.turn(response)
            except BaseException as error:
                await one.fail(error)
                raise
            one.running.end(grpc.StatusCode.OK)
            one.running.call.when_sent(self._sender.watch(context))
            return response

        return grpc.stream_unary_rpc_method_handler(answer, response_serializer=serialised)

    def stream(
        self, service: str, name: str, request_type: type[Message], handle: StreamHandler
    ) -> grpc.RpcMethodHandler:
        """Make the handler of a method that answers with a stream."""
        method = self._declared("server_stream", service, name)

        # Writes itself: a handler that yields is not there when its call is cut while gRPC waits for a slow reader.
        async def answer(_: Any, context: Any) -> None:
            one = self._begun(method, context)
            try:
                one.running.enter(stream=True)
                inside = _Inside(self, context.peer())
                try:
                    request = await inside.request(request_type, context, one)
                    async with aclosing(handle(request, one.running.call)) as responses:
                        async for response in responses:
                            await self._sender.write(context, response)
                finally:
                    inside.leave()
            except BaseException as error:
                await one.fail(error)
                raise
            one.running.end(grpc.StatusCode.OK)

        return grpc.stream_stream_rpc_method_handler(answer, response_serializer=serialised)

    def duplex(self, service: str, duplex: DuplexMethod) -> grpc.RpcMethodHandler:
        """Make the handler of a method whose caller sends requests on one stream; each is answered before the next is
        read.
        """
        method = self._declared("bidi_stream", service, duplex.name)

        async def answer(_: Any, context: Any) -> None:
            one = self._begun(method, context)
            try:
                inside = one.running.enter(stream=True)
                for number in itertools.count():
                    with self._lifecycle.drain.idle(inside):
                        data = await self.reading.next_of_stream(context, one.fail)
                    if data is None:
                        break
                    await self._answer_part(duplex, data, one.running.part(number), context)
                    del data
            except BaseException as error:
                await one.fail(error)
                raise
            one.running.end(grpc.StatusCode.OK)

        return grpc.stream_stream_rpc_method_handler(answer, response_serializer=serialised)

    async def _answer_part(self, duplex: DuplexMethod, data: bytes, part: RunningCall, context: Any) -> None:
        """Answer one request of a stream, which goes on whatever comes of it; it has a line in the log of its own."""
        code, request = grpc.StatusCode.OK, duplex.request()
        inside = _Inside(self, context.peer())
        try:
            await inside.enter()
            request = await inside.parsed(duplex.request, data)
            async with aclosing(duplex.handle(request, part.call)) as responses:
                async for response in responses:
                    await self._sender.write(context, response)
        except BaseException as error:
            status = part.status(error)
            if status is None:
                code = part.abandoned(error)
                raise
            code = status.code
            await self._sender.write(context, duplex.refuse(request, status))
        finally:
            inside.leave()
            part.end_part(code)

    def refusal(self, path: str, error: LimelightError) -> grpc.RpcMethodHandler:
        """Make the handler of a call that is refused whatever it sends, of which nothing is read.

        path: of its method, `service/method`; a call to one that was not made here is neither counted nor logged.
        """
        method = self._methods.get(path)

        async def answer(_: Any, context: Any) -> None:
            if method is None:
                status = status_of(error, "")
                await abort(context, status.code, status.message, status.trailing)
            else:
                await self._begun(method, context).fail(error)

        return grpc.stream_stream_rpc_method_handler(answer)

    def turned_away(self, path: str, context: Any) -> Status:
        """Count and log a call that comes after more than can be taken up; gives what it is told.

        path: of its method, of any service; only calls to those made here are counted and logged. context: gRPC's.
        """
        error = QueueFullError("more calls arrive than can be taken up; try again later", retry_after=_RETRY_AFTER)
        method = self._methods.get(path.removeprefix("/"))
        if method is None:
            return status_of(error, "")
        running = self._lifecycle.begin(method, _sent_id(context))
        status = status_of(error, running.call.identity)
        self._lifecycle.metrics.rejected(Rejection.OVERLOAD, 1)
        running.end(status.code)
        return replace(status, trailing=((REQUEST_ID_KEY, running.call.identity), *status.trailing))

    def _begun(self, method: CalledMethod, context: Any) -> "_GrpcCall":
        remaining = context.time_remaining()
        deadline = None if remaining is None else time.monotonic() + remaining
        metadata = context.invocation_metadata() or ()
        running = self._lifecycle.begin(method, _sent_id(context), metadata, deadline=deadline, caller=calling.get())
        # gRPC keeps what it calls at the end in a cycle with its own part of the call: so that is one thing, of which
        # next to nothing is left by then.
        at_end = running.call.at_end
        context.add_done_callback(lambda _: at_end.close())
        context.set_trailing_metadata(((REQUEST_ID_KEY, running.call.identity),))
        return _GrpcCall(running, context)

    def _declared(self, kind: str, service: str, name: str) -> CalledMethod:
        method = self._methods[f"{service}/{name}"] = self._lifecycle.method(kind, service, name)
        return method


def serialised(response: Message | bytes) -> bytes:
    """Give the bytes of a response."""
    return response.SerializeToString() if isinstance(response, Message) else response


def _sent_id(context: Any) -> str | bytes | None:
    """Find a caller's own id of its call."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_KEY:
            return value  # type: ignore[no-any-return]
    return None


class _GrpcCall:
    """A call that came by gRPC."""

    __slots__ = ("_context", "running")

    def __init__(self, running: RunningCall, context: Any) -> None:
        self.running = running
        self._context = context

    async def fail(self, error: BaseException) -> None:
        """End the call with the status of an error; returns where the call was cancelled, or stopped before."""
        running = self.running
        if running.is_over:
            return
        status = running.status(error)
        if status is None:
            running.end(running.abandoned(error))
            return
        running.end(status.code)
        if running.is_late:
            await asyncio.sleep(_CANCELLED_BY_THEN)
        trailing = (REQUEST_ID_KEY, running.call.identity), *status.trailing
        await abort(self._context, status.code, status.message, trailing)


class _Inside:
    """A call's part of its connection's share, and the memory of its request, until it leaves."""

    __slots__ = ("_calls", "_connection", "_held", "_peer")

    def __init__(self, calls: Calls, peer: str) -> None:
        self._calls = calls
        self._peer = peer
        self._connection: Connection | None = None
        self._held: Held | None = None

    async def enter(self) -> None:
        """Wait for a part of the connection's share. Raises: QueueFullError."""
        connections = self._calls.connections
        self._connection = connections.enter(self._peer) or await connections.wait(self._peer)

    async def request(self, kind: type[Message], context: Any, one: _GrpcCall) -> Any:
        """Go in, receive the call's one request, and parse it. Raises: as `enter`, `Reading.receive` and `parsed`."""
        await self.enter()
        return await self.parsed(kind, await self._calls.reading.receive(context, one.fail))

    async def parsed(self, kind: type[Message], data: bytes) -> Any:
        """Parse a request, and hold its memory. Raises: as `Reading.parsed`."""
        request, self._held = await self._calls.reading.parsed(kind, data)
        return request

    def leave(self) -> None:
        """Give everything back."""
        if self._held is not None:
            self._held.release()
        if self._connection is not None:
            self._calls.connections.leave(self._peer, self._connection)
