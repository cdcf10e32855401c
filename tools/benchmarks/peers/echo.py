"""A bare asyncio gRPC server that returns its requests, once or often: `python -m benchmarks.peers.echo PORT`."""

import asyncio
import sys
from typing import Any

import grpc

from benchmarks.process import HEALTH, SERVING, Process, free_port, healthy

ECHO = "/echo.Echo/Echo"
AGAIN = "/echo.Echo/Again"  # the first byte is the number of answers, the rest the answer


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
        return grpc.unary_unary_rpc_method_handler(_ready if details.method == HEALTH else _echo)


async def _echo(request: bytes, context: Any) -> bytes:
    return request


async def _again(request: bytes, context: Any) -> None:
    for _ in range(request[0]):
        await context.write(request[1:])


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
