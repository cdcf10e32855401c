"""Shared parts of all methods, with a context that does what a socket cannot be made to do on purpose."""

import asyncio
from typing import Any

import grpc
import pytest
from google.rpc import status_pb2

from limelight.v1 import service_pb2
from limelight_service.admission.connections import ConnectionQueues
from limelight_service.admission.drain import DrainGate
from limelight_service.admission.memory import MemoryBudget
from limelight_service.admission.uploads import UploadLimiter, UploadSlots
from limelight_service.codecs.v1.service import SERVICE
from limelight_service.frontend.lifecycle import Lifecycle
from limelight_service.frontend.transport.calls import Calls
from limelight_service.frontend.transport.parsing import Parsing
from limelight_service.frontend.transport.reading import Reading
from limelight_service.frontend.transport.response_sender import ResponseSender
from limelight_service.observability.metrics import Metrics


class Aborted(Exception):
    """Exception of gRPC where a call is aborted."""


class Context:
    """A server's side of a call that has so many seconds left, and whose request is there."""

    def __init__(self, remaining: float | None, request: bytes = b"") -> None:
        self.remaining = remaining
        self.request = request
        self.trailing: dict[str, Any] = {}
        self.code: grpc.StatusCode | None = None
        self.message = ""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-request-id", "id-1"),)

    def time_remaining(self) -> float | None:
        return self.remaining

    def add_done_callback(self, callback: Any) -> None:
        callback(self)

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def read(self) -> bytes:
        return self.request

    def set_trailing_metadata(self, metadata: tuple[tuple[str, Any], ...]) -> None:
        self.trailing.update(metadata)

    async def abort(self, code: grpc.StatusCode, message: str, trailing: tuple[tuple[str, Any], ...]) -> None:
        self.code, self.message = code, message
        self.trailing.update(trailing)
        raise Aborted


def calls(limit: int = 1000) -> tuple[Calls, Metrics]:
    metrics = Metrics()
    uploads = UploadLimiter(UploadSlots(quick=1, slow=1), 1.0, metrics)
    reading = Reading(uploads, uploads, MemoryBudget(limit, "requests", metrics), Parsing(1000).message)
    lifecycle = Lifecycle(metrics, DrainGate())
    return Calls(lifecycle, ConnectionQueues(8, 8, metrics), reading, ResponseSender(60.0)), metrics


def test_a_failure_that_nobody_foresaw_tells_the_caller_its_id_and_nothing_else() -> None:
    async def broken(request: Any, call: Any) -> bytes:
        raise KeyError("/etc/secret")

    context = Context(None)
    with pytest.raises(Aborted):
        asyncio.run(
            calls()[0].unary(SERVICE, "Predict", service_pb2.PredictRequest, broken).stream_unary(None, context)
        )
    assert context.code is grpc.StatusCode.INTERNAL
    assert "id-1" in context.message and "secret" not in context.message
    rich = status_pb2.Status.FromString(context.trailing["grpc-status-details-bin"])
    assert b"secret" not in rich.SerializeToString()


def test_requests_together_cannot_hold_more_than_the_budget() -> None:
    made, _ = calls(limit=100)
    request = service_pb2.PredictRequest(outputs=["x" * 58]).SerializeToString()  # 60 bytes
    context = Context(None, request)

    async def run() -> None:
        release = asyncio.Event()

        async def wait(request: Any, call: Any) -> bytes:
            await release.wait()
            return b"done"

        method = made.unary(SERVICE, "Predict", service_pb2.PredictRequest, wait).stream_unary
        first = asyncio.create_task(method(None, Context(None, request)))
        await asyncio.sleep(0)
        with pytest.raises(Aborted):
            await method(None, context)
        release.set()
        assert await first == b"done"
        assert await method(None, Context(None, request)) == b"done"  # what was held is free again

    asyncio.run(run())
    assert context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
