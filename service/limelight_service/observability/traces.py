"""Traces of calls, as the rest of the server sees them. Without a tracer nothing is measured, imported or kept.

Engines take no part: they tell with each result when its row was admitted, how long it waited and how long it computed,
on the clock that all processes of a machine share. So the spans of both processes are made in the frontend.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

Attribute = str | int | float | bool


class Trace(Protocol):
    """The trace of one call, with a span for the call.

    identity: its number as W3C writes it, 32 hexadecimal digits; empty where the call is not sampled.
    """

    identity: str

    def stage(self, name: str, began: int, nanoseconds: int, attributes: Mapping[str, Attribute]) -> None:
        """Add the span of a stage. began: on the clock of `time.monotonic_ns`."""

    def end(self, code: str, attributes: Mapping[str, Attribute]) -> None:
        """End the span of the call. code: the name of its status."""


class Tracer(Protocol):
    """Begins traces. Safe to use from several threads."""

    def begin(self, service: str, method: str, metadata: Sequence[tuple[str, str | bytes]]) -> Trace:
        """Begin the span of a call that has arrived, in the trace that its metadata name."""

    def close(self) -> None:
        """Send what is left to send, and no more from then on. Takes as long as the collector does."""
