"""A bare asyncio gRPC server that answers what it got, once or often, or refuses it: `python -m benchmarks.peers.echo
PORT`.
"""

import asyncio
import sys
from typing import Any

import grpc

from benchmarks.process import HEALTH, SERVING, Process, free_port, healthy
from service.errors import QueueFullError
from service.rpc.status import status_of

ECHO = "/echo.Echo/Echo"
AGAIN = "/echo.Echo/Again"  # a byte says how often what stands behind it comes back
REFUSE = "/echo.Echo/Refuse"  # unread, with the status of a full server


class Echo(Process):
    """The server in a process of its own."""

    def __init__(self) -> None:
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.peers.echo", str(port)]
        super().__init__(command, f"127.0.0.1:{port}", healthy)


class _Handlers(grpc.GenericRpcHandler):
    def service(self, details: Any) -> grpc.RpcMethodHandler:
        if details.method == AGAIN:
            return grpc.unary_stream_rpc_method_handler(_again)
        if details.method == REFUSE:  # as a stream, so that nothing of the request is waited for
            return grpc.stream_unary_rpc_method_handler(_refuse)
        return grpc.unary_unary_rpc_method_handler(_ready if details.method == HEALTH else _echo)


async def _echo(request: bytes, context: Any) -> bytes:
    return request


async def _again(request: bytes, context: Any) -> None:
    for _ in range(request[0]):
        await context.write(request[1:])


_FULL = status_of(QueueFullError("so much is waiting that nothing more is taken", retry_after=1.0), "request")


async def _refuse(requests: Any, context: Any) -> None:
    await context.abort(_FULL.code, _FULL.message, _FULL.trailing)


async def _ready(request: bytes, context: Any) -> bytes:
    return SERVING


async def _serve(port: int) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Handlers(),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
