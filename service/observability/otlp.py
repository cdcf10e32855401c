"""Traces through OpenTelemetry, sent over OTLP. The standard `OTEL_*` variables say where and how many.

Imported only where tracing is on: its packages are an extra.
"""

import os
import time
from collections.abc import Mapping, Sequence

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

from bundle.errors import LimelightError
from service.observability.metrics import CODES
from service.observability.traces import Attribute

_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_UNNAMED = "unknown_service"
# Codes that OpenTelemetry counts as errors of a server; the others are the caller's.
_ERRORS = frozenset(("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"))
_NUMBERS = {name: number for number, name in enumerate(CODES)}


class OtlpTracer:
    """Makes spans and sends them, on a thread of its own.

    Raises: LimelightError where the variables ask for what is not there.
    """

    def __init__(self) -> None:
        for variable in _PROTOCOLS:
            if (protocol := os.environ.get(variable, _PROTOCOL)) != _PROTOCOL:
                raise LimelightError(f"{variable} is {protocol!r}; traces are sent by {_PROTOCOL} only")
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith(_UNNAMED):
            resource = resource.merge(Resource({SERVICE_NAME: "limelight"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("limelight")

    def begin(self, service: str, method: str, metadata: Sequence[tuple[str, str | bytes]]) -> "OtlpTrace":
        """As `Tracer.begin`."""
        carrier = {name: value for name, value in metadata if isinstance(value, str)}
        span = self._tracer.start_span(
            f"{service}/{method}",
            context=extract(carrier),
            kind=SpanKind.SERVER,
            attributes={"rpc.system": "grpc", "rpc.service": service, "rpc.method": method},
        )
        return OtlpTrace(self._tracer, span)

    def close(self) -> None:
        """As `Tracer.close`."""
        self._provider.shutdown()


class OtlpTrace:
    """As `Trace`."""

    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        context = span.get_span_context()
        self.identity = trace.format_trace_id(context.trace_id) if context.trace_flags.sampled else ""
        self._tracer = tracer
        self._span = span
        self._context = trace.set_span_in_context(span)
        self._epoch = time.time_ns() - time.monotonic_ns()

    def stage(self, name: str, began: int, nanoseconds: int, attributes: Mapping[str, Attribute]) -> None:
        """As `Trace.stage`."""
        if not self.identity:
            return
        start = self._epoch + began
        span = self._tracer.start_span(name, context=self._context, attributes=dict(attributes), start_time=start)
        span.end(start + nanoseconds)

    def end(self, code: str, attributes: Mapping[str, Attribute]) -> None:
        """As `Trace.end`."""
        self._span.set_attributes({"rpc.grpc.status_code": _NUMBERS[code], **attributes})
        if code in _ERRORS:
            self._span.set_status(Status(StatusCode.ERROR, code))
        self._span.end()
