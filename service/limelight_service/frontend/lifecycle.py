"""The one way of a call, whatever protocol it comes by: identity, drain, deadline, metrics, status, log line, trace."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass

import grpc

from limelight_service.admission.drain import DrainGate, InFlightCall
from limelight_service.errors import DeadlineError, StoppingError
from limelight_service.frontend.call import Call, Ending
from limelight_service.frontend.status import Status, StatusError, status_of
from limelight_service.observability.logs import log_failure, log_request, request_id
from limelight_service.observability.metrics import PROVIDER, MethodMetrics, Metrics
from limelight_service.observability.observer import Rejection
from limelight_service.observability.traces import Attribute, CalledSpan, Tracer, rpc_span
from limelight_service.security.caller import ANYBODY, Caller


@dataclass(frozen=True, slots=True)
class CalledMethod:
    """A method as calls of it are counted, logged and traced."""

    name: str
    counted: MethodMetrics
    span: CalledSpan


class Lifecycle:
    """Begins calls. For one event loop.

    drain: lets them in. tracer: None where calls are not traced.
    """

    def __init__(self, metrics: Metrics, drain: DrainGate, tracer: Tracer | None = None) -> None:
        self.metrics = metrics
        self.drain = drain
        self._tracer = tracer

    def method(self, kind: str, service: str, name: str, span: CalledSpan | None = None) -> CalledMethod:
        """Declare a method, whose metrics are there from now on. kind: of `grpc_type`; span: None for that of gRPC."""
        counted = self.metrics.methods(kind, service, [name])[name]
        return CalledMethod(name, counted, span or rpc_span(service, name))

    def begin(
        self,
        method: CalledMethod,
        sent_id: str | bytes | None,
        metadata: Iterable[tuple[str, str | bytes]] = (),
        *,
        deadline: float | None = None,
        caller: Caller = ANYBODY,
    ) -> "RunningCall":
        """Begin the bookkeeping of a call that has arrived.

        Args:
            sent_id: the caller's own id of the call.
            metadata: of the call, which may name a trace.
            deadline: on the clock of `time.monotonic`; None without one.
        """
        method.counted.begin()
        call = Call(request_id(sent_id), deadline, Ending(), caller)
        if self._tracer is not None:
            call.trace = self._tracer.begin(method.span, tuple(metadata))
        return RunningCall(self, method, call)


class RunningCall:
    """The bookkeeping of one call. is_over: its end is counted. task: that answers. was_cut: the server stopped it."""

    __slots__ = ("_lifecycle", "call", "is_over", "method", "task", "was_cut")

    def __init__(self, lifecycle: Lifecycle, method: CalledMethod, call: Call) -> None:
        """Made by `Lifecycle.begin`."""
        self._lifecycle = lifecycle
        self.method = method
        self.call = call
        self.is_over = self.was_cut = False

    @property
    def is_late(self) -> bool:
        """True once the deadline has passed."""
        deadline = self.call.deadline
        return deadline is not None and deadline <= time.monotonic()

    def enter(self, *, stream: bool) -> InFlightCall:
        """Go in, until the answer is sent; a stop of the server cancels the calling task at its end.

        Raises: DeadlineError where the deadline has passed already; StoppingError where the server stops.
        """
        metrics, drain = self._lifecycle.metrics, self._lifecycle.drain
        if self.is_late:
            metrics.rejected(Rejection.DEADLINE, 1)
            raise DeadlineError("the deadline had passed when the call arrived")
        task = asyncio.current_task()
        assert task is not None
        self.task = task

        def cut() -> None:
            self.was_cut = True
            task.cancel()

        try:
            inside = drain.enter(cut, stream=stream)
        except StoppingError:
            metrics.rejected(Rejection.STOPPING, 1)
            raise
        self.call.when_sent(lambda: drain.leave(inside))
        return inside

    def part(self, number: int) -> "RunningCall":
        """Begin one request of a stream, by its number: a call with a line of its own, which is not counted."""
        call = self.call
        part = Call(f"{call.identity}/{number}", call.deadline, Ending(), call.caller, trace=call.trace)
        return RunningCall(self._lifecycle, self.method, part)

    def status(self, error: BaseException) -> Status | None:
        """Give what the caller is told of an error, and log one that nobody foresaw; None where nobody listens."""
        if isinstance(error, asyncio.CancelledError) and self.was_cut:
            error = StoppingError("the server stopped before the answer was there", retry_after=0.0)
        if not isinstance(error, Exception):
            return None
        status = status_of(error, self.call.identity)
        if status.code is grpc.StatusCode.INTERNAL and not isinstance(error, StatusError):
            log_failure(error, self.call.identity, self.method.name)
        return status

    def abandoned(self, error: BaseException) -> grpc.StatusCode:
        """Give the code of a call that ended without anybody to tell."""
        if not isinstance(error, asyncio.CancelledError):
            return grpc.StatusCode.INTERNAL
        return grpc.StatusCode.DEADLINE_EXCEEDED if self.is_late else grpc.StatusCode.CANCELLED

    def end(self, code: grpc.StatusCode, http_status: int = 0) -> None:
        """Count the call and write its line. http_status: of the answer over HTTP."""
        self.is_over = True
        call = self.call
        seconds = time.monotonic() - call.began
        name = code.name  # a property, which costs two calls
        self.method.counted.end(name, seconds, "" if call.trace is None else call.trace.identity)
        if call.trace is not None:
            attributes: dict[str, Attribute] = {"limelight.request_id": call.identity}
            if call.model:
                attributes["limelight.model"] = call.model
                attributes["limelight.version"] = call.version
                attributes["limelight.rows"] = call.rows
            if call.operation and call.model:
                attributes |= {
                    "gen_ai.operation.name": call.operation,
                    "gen_ai.provider.name": PROVIDER,
                    "gen_ai.request.model": call.model,
                }
            call.trace.end(name, attributes, http_status)
        if call.caller.name:
            self._lifecycle.metrics.token_call(call.caller.name, name)
        self._finish(name, seconds)

    def end_part(self, code: grpc.StatusCode) -> None:
        """Write the line of a part, and release what it held."""
        self._finish(code.name, time.monotonic() - self.call.began)
        self.call.at_end.close()

    def _finish(self, code: str, seconds: float) -> None:
        """Count a request for a model that was found, and write the line."""
        call = self.call
        if call.operation and call.model:
            self._lifecycle.metrics.request(call.model, call.operation, code, seconds)
        log_request(
            identity=call.identity,
            token=call.caller.name,
            method=self.method.name,
            model=call.model,
            version=call.version,
            rows=call.rows,
            code=code,
            seconds=seconds,
            durations=call.durations,
        )
