"""A server in front of the real one: it keeps what clients send, and fails or waits where a test says so."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, repeat
from typing import Any, Self

import grpc
from google.protobuf.message_factory import GetMessageClass
from google.rpc import error_details_pb2, status_pb2

from limelight.v1 import service_pb2

_METHODS = service_pb2.DESCRIPTOR.services_by_name["AttentionService"].methods_by_name
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]


class Forwarder(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Forwards calls to a server and its answers to their callers, byte for byte. A `with` block stops it.

    requests: messages to the AttentionService, in order. metadata: of the last call. cancelled: number of calls whose
    callers left. pauses: seconds before each message of an answer, by the name of the method.
    """

    def __init__(self, upstream: str, port: int = 0, host: str = "127.0.0.1") -> None:
        self.upstream = upstream
        self._channel = grpc.insecure_channel(upstream, _OPTIONS)
        self._server = grpc.server(ThreadPoolExecutor(32), [self], options=_OPTIONS)
        self.port = self._server.add_insecure_port(f"{host}:{port}")
        self.target = f"{host}:{self.port}"
        self.forget()
        self._server.start()

    def forget(self) -> None:
        """Begin anew: nothing was sent, and nothing will fail."""
        self.requests: list[Any] = []
        self.metadata: dict[str, str | bytes] = {}
        self.cancelled = 0
        self.pauses: dict[str, float] = {}
        self._answers: list[tuple[str, bytes]] = []
        self._failures: Iterator[tuple[grpc.StatusCode, status_pb2.Status] | None] = iter(())

    @property
    def answers(self) -> list[Any]:
        """The messages that came back, in order."""
        return [GetMessageClass(_METHODS[name].output_type).FromString(data) for name, data in self._answers]

    def fail(
        self, code: grpc.StatusCode, message: str, *, times: int = 1, after: int = 0, retry_ms: int | None = None
    ) -> None:
        """Refuse so many calls, after so many that are answered. retry_ms: what a client is told to wait."""
        status = status_pb2.Status(code=code.value[0], message=message)
        if retry_ms is not None:
            retry = error_details_pb2.RetryInfo()
            retry.retry_delay.FromMilliseconds(retry_ms)
            status.details.add().Pack(retry)
        self._failures = chain(repeat(None, after), repeat((code, status), times))

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Handle every call alike: an answer of one message is a stream of one."""
        return grpc.unary_stream_rpc_method_handler(partial(self._forward, handler_call_details.method))

    def _forward(self, method: str, sent: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        name = method.rpartition("/")[2]
        self.metadata = dict(context.invocation_metadata())
        if name in _METHODS:
            self.requests.append(GetMessageClass(_METHODS[name].input_type).FromString(sent))
        if (failure := next(self._failures, None)) is not None:
            code, status = failure
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(code, status.message)
        metadata = [each for each in context.invocation_metadata() if not each.key.startswith(("grpc-", "user-agent"))]
        timeout = min(context.time_remaining() or 1e6, 1e6)  # gRPC's own infinity is too long for it
        call = self._channel.unary_stream(method)(sent, timeout=timeout, metadata=metadata)
        over = threading.Event()

        def end() -> None:
            if not over.is_set():
                self.cancelled += 1
            over.set()
            call.cancel()

        if not context.add_callback(end):
            end()
        try:
            for message in call:
                over.wait(self.pauses.get(name, 0))
                if name in _METHODS:
                    self._answers.append((name, message))
                yield message
        except grpc.RpcError as error:
            over.set()
            context.set_trailing_metadata(error.trailing_metadata() or ())  # type: ignore[attr-defined]
            context.abort(error.code(), error.details())  # type: ignore[attr-defined]
        over.set()
        context.set_trailing_metadata(call.trailing_metadata() or ())

    def stop(self) -> None:
        """Answer no more."""
        self._server.stop(None).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._channel.close()
