"""Traces of calls, as the rest of the server sees them. Without a tracer nothing is measured, imported or kept.

Engines take no part: they tell with each result when its row was admitted, how long it waited and how long it computed,
on the clock that all processes of a machine share. So the spans of both processes are made in the frontend.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Attribute = str | int | float | bool


@dataclass(frozen=True)
class CalledSpan:
    """The spans of a method's calls: their name, and attributes that all have, by OpenTelemetry's conventions."""

    name: str
    attributes: Mapping[str, Attribute]


def rpc_span(service: str, method: str) -> CalledSpan:
    """Give the spans of a method that is called by gRPC."""
    return CalledSpan(f"{service}/{method}", {"rpc.system.name": "grpc", "rpc.method": f"{service}/{method}"})


def http_span(verb: str, route: str) -> CalledSpan:
    """Give the spans of a method that is called by HTTP. route: its path, with names of its parts in braces."""
    return CalledSpan(f"{verb} {route}", {"http.request.method": verb, "http.route": route})


class Trace(Protocol):
    """The trace of one call, with a span for the call.

    identity: its number as W3C writes it, 32 hexadecimal digits; empty where the call is not sampled.
    """

    identity: str

    def stage(self, name: str, began: int, nanoseconds: int, attributes: Mapping[str, Attribute]) -> None:
        """Add the span of a stage. began: on the clock of `time.monotonic_ns`."""

    def end(self, code: str, attributes: Mapping[str, Attribute], http_status: int = 0) -> None:
        """End the span of the call. code: the name of its status; http_status: that of HTTP, where it came so."""


class Tracer(Protocol):
    """Begins traces. Safe to use from several threads."""

    def begin(self, span: CalledSpan, metadata: Sequence[tuple[str, str | bytes]]) -> Trace:
        """Begin the span of a call that has arrived, in the trace that its metadata name."""

    def close(self) -> None:
        """Send what is left to send, and no more from then on. Takes as long as the collector does."""
