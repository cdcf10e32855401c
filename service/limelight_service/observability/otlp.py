"""Traces through OpenTelemetry, sent over OTLP. The standard `OTEL_*` variables say where and how many
(https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables): one that is empty is none.

Imported only where tracing is on: its packages are an extra.
"""

import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from limelight_bundle.errors import LimelightError
from limelight_service.observability.build import release
from limelight_service.observability.traces import Attribute, CalledSpan

logger = logging.getLogger(__name__)

_EXPORTER, _PROPAGATORS = "OTEL_TRACES_EXPORTER", "OTEL_PROPAGATORS"
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_TIMEOUT = 10_000.0  # milliseconds
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_UNNAMED = "unknown_service"
# Codes that OpenTelemetry counts as errors of a server; the others are the caller's.
_ERRORS = frozenset(("UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"))


def is_on() -> bool:
    """Tell whether the variables leave tracing on. Raises: LimelightError for an exporter that is not there."""
    exporters = _words(_EXPORTER) or ["otlp"]
    other = next((each for each in exporters if each not in ("otlp", "none")), None)
    if other is not None:
        raise LimelightError(f"{_EXPORTER} has {other!r}; traces are sent by otlp, or by none")
    return "otlp" in exporters and _words("OTEL_SDK_DISABLED") != ["true"]


class OtlpTracer:
    """Makes spans and sends them, on a thread of its own.

    Raises: LimelightError where the variables ask for what is not there.
    """

    def __init__(self) -> None:
        for variable in [name for name, value in os.environ.items() if name.startswith("OTEL_") and not value.strip()]:
            del os.environ[variable]  # not every one that the libraries read is taken for none by them
        variable, protocol = _first(_PROTOCOLS)
        if protocol.lower() not in ("", _PROTOCOL):
            raise LimelightError(f"{variable} is {protocol!r}; traces are sent by {_PROTOCOL} only")
        self._propagators = _propagators()
        # What OTEL_RESOURCE_ATTRIBUTES says counts before it.
        resource = Resource({SERVICE_VERSION: release()}).merge(Resource.create())
        if str(resource.attributes[SERVICE_NAME]).startswith(_UNNAMED):
            resource = resource.merge(Resource({SERVICE_NAME: "limelight"}))
        try:
            self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_timeout())))
        except ValueError as error:
            raise LimelightError(f"the OTEL_* variables cannot be used for traces: {error}") from error
        self._tracer = self._provider.get_tracer("limelight")

    def begin(self, span: CalledSpan, metadata: Sequence[tuple[str, str | bytes]]) -> "OtlpTrace":
        """As `Tracer.begin`."""
        begun = self._tracer.start_span(
            span.name,
            context=self._parent({name: value for name, value in metadata if isinstance(value, str)}),
            kind=SpanKind.SERVER,
            attributes=dict(span.attributes),
        )
        return OtlpTrace(self._tracer, begun)

    def close(self) -> None:
        """As `Tracer.close`."""
        self._provider.shutdown()

    def _parent(self, carrier: Mapping[str, str]) -> Context:
        """Give the span that the caller names: its numbers and whether it is sampled, and no text of its."""
        context = Context()
        for each in self._propagators:
            context = each.extract(carrier, context)
        found = trace.get_current_span(context).get_span_context()
        if not found.is_valid:
            return Context()
        flags = TraceFlags(found.trace_flags & TraceFlags.SAMPLED)
        named = SpanContext(found.trace_id, found.span_id, is_remote=True, trace_flags=flags)
        return trace.set_span_in_context(NonRecordingSpan(named), Context())


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

    def end(self, code: str, attributes: Mapping[str, Attribute], http_status: int = 0) -> None:
        """As `Trace.end`."""
        name = "http.response.status_code" if http_status else "rpc.response.status_code"
        self._span.set_attributes({name: http_status or code, **attributes})
        if code in _ERRORS:
            self._span.set_attribute("error.type", str(http_status or code))
            self._span.set_status(Status(StatusCode.ERROR, code))
        self._span.end()


def _first(variables: Sequence[str]) -> tuple[str, str]:
    """Give the first variable that is set, and its value; the last and an empty text where none is."""
    values = [(each, os.environ.get(each, "").strip()) for each in variables]
    return next((each for each in values if each[1]), values[-1])


def _words(variable: str) -> list[str]:
    """Read a list of words, whose capitals say nothing."""
    return [each for each in (part.strip().lower() for part in os.environ.get(variable, "").split(",")) if each]


def _timeout() -> float:
    """Give the seconds that sending may take. The variables have milliseconds, which the library takes for seconds."""
    variable, text = _first(_TIMEOUTS)
    try:
        value = float(text or _TIMEOUT)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        logger.warning("%s is %r, which is no number of milliseconds; %d are taken", variable, text, _TIMEOUT)
        value = _TIMEOUT
    return value / 1000


def _propagators() -> Sequence[TextMapPropagator]:
    """Load what reads the span that a caller names; of baggage there is nothing to read here."""
    names = _words(_PROPAGATORS) or ["tracecontext"]
    if "none" in names:
        return ()
    found = {}
    for name in names:
        entries = entry_points(group="opentelemetry_propagator", name=name)
        if not entries:
            logger.warning("%s has %r, which is not installed; it is left out", _PROPAGATORS, name)
        elif name != "baggage":
            found[name] = next(iter(entries)).load()()
    return tuple(found.values())
